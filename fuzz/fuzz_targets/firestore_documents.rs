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
    let now_ms = u64::from_be_bytes(*now);
    let live_for = document.live_for(now_ms);
    let _ = document.counter();
    let Ok(locks) = document.locks(now_ms) else {
        return;
    };
    for lock in &locks {
        assert!(lock.fence.value() <= FENCE_MAX);
        assert_eq!(lock.lock_id.as_str().len(), 22);
        // Whoever holds the key has an end, and does not outlast the document.
        assert!(live_for.is_some());
        assert!(document.live_for(lock.expires_at_ms).is_some());
        if let Some(share) = lock.share {
            assert_eq!(share.holders as usize, locks.len());
        }
    }
});
