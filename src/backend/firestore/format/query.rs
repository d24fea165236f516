//! Queries on the lock collection.

use firestore::gcloud_sdk::google::firestore::v1::structured_query::field_filter::Operator;
use firestore::gcloud_sdk::google::firestore::v1::structured_query::filter::FilterType;
use firestore::gcloud_sdk::google::firestore::v1::structured_query::{
    CollectionSelector, Direction, FieldFilter, FieldReference, Filter, Order,
};
use firestore::gcloud_sdk::google::firestore::v1::value::ValueType;
use firestore::gcloud_sdk::google::firestore::v1::{Cursor, StructuredQuery, Value};

use super::document::text;
use crate::lock::LockId;

/// The most documents with one lockId that a query returns. The next query returns the rest.
const MAX_DUPLICATES: i32 = 100;

/// Selects all documents with this lockId. There is one, unless another program wrote to the collection.
pub(crate) fn with_lock_id(collection: &str, lock_id: LockId) -> StructuredQuery {
    StructuredQuery {
        r#where: Some(Filter {
            filter_type: Some(FilterType::FieldFilter(FieldFilter {
                field: field("lockId"),
                op: Operator::Equal as i32,
                value: Some(text(lock_id.as_str())),
            })),
        }),
        limit: Some(MAX_DUPLICATES),
        ..every(collection)
    }
}

/// Selects the first documents by id, or those after the document with the name `after`.
pub(crate) fn page(collection: &str, after: Option<String>, limit: i32) -> StructuredQuery {
    StructuredQuery {
        order_by: vec![Order {
            field: field("__name__"),
            direction: Direction::Ascending as i32,
        }],
        start_at: after.map(|name| Cursor {
            values: vec![Value {
                value_type: Some(ValueType::ReferenceValue(name)),
            }],
            before: false,
        }),
        limit: Some(limit),
        ..every(collection)
    }
}

fn every(collection: &str) -> StructuredQuery {
    StructuredQuery {
        from: vec![CollectionSelector {
            collection_id: collection.to_owned(),
            all_descendants: false,
        }],
        ..StructuredQuery::default()
    }
}

fn field(path: &str) -> Option<FieldReference> {
    Some(FieldReference {
        field_path: path.to_owned(),
    })
}
