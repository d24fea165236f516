//! The values of fields. Any program may have written what is read, so nothing is taken for granted.

use std::collections::HashMap;

use firestore::gcloud_sdk::google::firestore::v1::value::ValueType;
use firestore::gcloud_sdk::google::firestore::v1::{ArrayValue, MapValue, Value};

/// The fields of a document, or of a map in a document.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a>(pub(super) &'a HashMap<String, Value>);

impl<'a> Fields<'a> {
    pub(super) fn has(self, field: &str) -> bool {
        self.0.contains_key(field)
    }

    pub(super) fn text(self, field: &str) -> Option<&'a str> {
        match self.value(field)? {
            ValueType::StringValue(text) => Some(text),
            _ => None,
        }
    }

    /// Returns a whole number from 0 to 2^53. JavaScript clients may have stored it as a double.
    pub(super) fn number(self, field: &str) -> Option<u64> {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        match self.value(field)? {
            ValueType::IntegerValue(number) => u64::try_from(*number).ok(),
            ValueType::DoubleValue(number) if (0.0..=EXACT).contains(number) => {
                Some(*number as u64)
            }
            _ => None,
        }
    }

    pub(super) fn map(self, field: &str) -> Option<Self> {
        match self.value(field)? {
            ValueType::MapValue(map) => Some(Self(&map.fields)),
            _ => None,
        }
    }

    /// Returns the maps of which the field is a list. `None` if it has anything else.
    pub(super) fn maps(self, field: &str) -> Option<Vec<Self>> {
        let ValueType::ArrayValue(list) = self.value(field)? else {
            return None;
        };
        let maps = list.values.iter().map(|value| match &value.value_type {
            Some(ValueType::MapValue(map)) => Some(Self(&map.fields)),
            _ => None,
        });
        maps.collect()
    }

    fn value(self, field: &str) -> Option<&'a ValueType> {
        self.0.get(field)?.value_type.as_ref()
    }
}

pub(super) fn fields<const N: usize>(fields: [(&str, Value); N]) -> HashMap<String, Value> {
    let named = fields
        .into_iter()
        .map(|(field, value)| (field.to_owned(), value));
    named.collect()
}

pub(super) fn text(text: &str) -> Value {
    value(ValueType::StringValue(text.to_owned()))
}

pub(super) fn number(number: u64) -> Value {
    value(ValueType::IntegerValue(
        i64::try_from(number).unwrap_or(i64::MAX),
    ))
}

pub(super) fn list(values: impl Iterator<Item = Value>) -> Value {
    value(ValueType::ArrayValue(ArrayValue {
        values: values.collect(),
    }))
}

pub(super) fn map(fields: HashMap<String, Value>) -> Value {
    value(ValueType::MapValue(MapValue { fields }))
}

fn value(value: ValueType) -> Value {
    Value {
        value_type: Some(value),
    }
}
