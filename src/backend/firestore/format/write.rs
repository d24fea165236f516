//! Writes that succeed only if the document is still at the version that was read.

use firestore::gcloud_sdk::google::firestore::v1::precondition::ConditionType;
use firestore::gcloud_sdk::google::firestore::v1::write::Operation;
use firestore::gcloud_sdk::google::firestore::v1::{Document, DocumentMask, Precondition, Write};
use prost_types::Timestamp;

/// Replaces the whole document if it is still at `version`. `None` means that it must not exist.
pub(crate) fn set(document: Document, version: Option<Timestamp>) -> Write {
    write(Operation::Update(document), None, version)
}

/// Replaces the one field in `document`.
pub(crate) fn update(document: Document, field: &str, version: Timestamp) -> Write {
    let mask = DocumentMask {
        field_paths: vec![field.to_owned()],
    };
    write(Operation::Update(document), Some(mask), Some(version))
}

pub(crate) fn delete(name: String, version: Timestamp) -> Write {
    write(Operation::Delete(name), None, Some(version))
}

fn write(operation: Operation, mask: Option<DocumentMask>, version: Option<Timestamp>) -> Write {
    Write {
        operation: Some(operation),
        update_mask: mask,
        update_transforms: Vec::new(),
        current_document: Some(Precondition {
            condition_type: Some(match version {
                Some(version) => ConditionType::UpdateTime(version),
                None => ConditionType::Exists(false),
            }),
        }),
    }
}
