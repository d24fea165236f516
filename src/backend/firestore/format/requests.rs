//! Queries on the lock collection, and writes that succeed only if the document is still at the version
//! that was read.

use firestore::gcloud_sdk::google::firestore::v1::precondition::ConditionType;
use firestore::gcloud_sdk::google::firestore::v1::structured_query::field_filter::Operator;
use firestore::gcloud_sdk::google::firestore::v1::structured_query::filter::FilterType;
use firestore::gcloud_sdk::google::firestore::v1::structured_query::{
    CollectionSelector, Direction, FieldFilter, FieldReference, Filter, Order,
};
use firestore::gcloud_sdk::google::firestore::v1::value::ValueType;
use firestore::gcloud_sdk::google::firestore::v1::write::Operation;
use firestore::gcloud_sdk::google::firestore::v1::{
    Cursor, Document, DocumentMask, Precondition, StructuredQuery, Value, Write,
};
use prost_types::Timestamp;

use super::shared::HOLDER_IDS;
use super::values::text;
use crate::lock::LockId;

/// The most documents with one lockId that a query returns. The next query returns the rest.
const MAX_DUPLICATES: i32 = 100;

/// Selects all documents with this lockId. There is one, unless another program wrote to the collection.
pub(crate) fn with_lock_id(collection: &str, lock_id: LockId) -> StructuredQuery {
    filtered(collection, "lockId", Operator::Equal, lock_id)
}

/// Selects all shared documents with this holder. There is one, unless another program wrote to the
/// collection. Firestore's automatic indexes suffice, as they do for [`with_lock_id`]; a query for
/// either might need another one.
pub(crate) fn with_holder(collection: &str, lock_id: LockId) -> StructuredQuery {
    filtered(collection, HOLDER_IDS, Operator::ArrayContains, lock_id)
}

fn filtered(collection: &str, path: &str, operator: Operator, lock_id: LockId) -> StructuredQuery {
    StructuredQuery {
        r#where: Some(Filter {
            filter_type: Some(FilterType::FieldFilter(FieldFilter {
                field: field(path),
                op: operator as i32,
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

/// Replaces the whole document if it is still at `version`. `None` means that it must not exist.
pub(crate) fn set(document: Document, version: Option<Timestamp>) -> Write {
    write(Operation::Update(document), version)
}

/// Replaces the one field in `document`.
pub(crate) fn update(document: Document, field: &str, version: Timestamp) -> Write {
    let mask = DocumentMask {
        field_paths: vec![field.to_owned()],
    };
    Write {
        update_mask: Some(mask),
        ..write(Operation::Update(document), Some(version))
    }
}

pub(crate) fn delete(name: String, version: Timestamp) -> Write {
    write(Operation::Delete(name), Some(version))
}

fn write(operation: Operation, version: Option<Timestamp>) -> Write {
    Write {
        operation: Some(operation),
        current_document: Some(Precondition {
            condition_type: Some(match version {
                Some(version) => ConditionType::UpdateTime(version),
                None => ConditionType::Exists(false),
            }),
        }),
        ..Write::default()
    }
}
