//! Documents of Firestore, in the encoding of its protocol. The last eight bytes are the time.
#![no_main]

use libfuzzer_sys::fuzz_target;
use syncguard::backend::firestore::fuzzing::Stored;
use syncguard::lock::fence::FENCE_MAX;

fuzz_target!(|data: &[u8]| {
    let Some((document, now)) = data.split_last_chunk() else {
        return;
    };
    let Some(document) = Stored::decode(document) else {
        return;
    };
    let _ = document.live_for(u64::from_be_bytes(*now));
    let _ = document.counter();
    if let Ok(record) = document.record() {
        assert!(record.fence.value() <= FENCE_MAX);
        assert_eq!(record.lock_id.as_str().len(), 22);
        // Whoever can be read as a holder has an end.
        assert!(document.live_for(record.expires_at_ms).is_some());
    }
});
