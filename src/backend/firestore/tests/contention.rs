use std::sync::Arc;

use super::{Server, acquire, sleep_ms};
use crate::backend::{Backend, ReleaseOutcome};

async fn winners_of(contenders: usize) -> usize {
    let server = Server::start().await;
    let backends: Vec<_> = (0..5).map(|_| Arc::new(server.backend())).collect();
    let tasks: Vec<_> = (0..contenders)
        .map(|n| {
            let backend = Arc::clone(&backends[n % backends.len()]);
            tokio::spawn(async move { acquire(&backend, "a", 30_000).await.unwrap().is_some() })
        })
        .collect();
    let mut winners = 0;
    for task in tasks {
        winners += usize::from(task.await.unwrap());
    }
    winners
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_ten_and_one_of_fifty_wins() {
    assert_eq!(winners_of(10).await, 1);
    assert_eq!(winners_of(50).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_fence_is_lost_or_repeated() {
    let server = Server::start().await;
    let backends: Vec<_> = (0..4).map(|_| Arc::new(server.backend())).collect();
    let tasks: Vec<_> = (0..20)
        .map(|n| {
            let backend = Arc::clone(&backends[n % backends.len()]);
            tokio::spawn(async move {
                loop {
                    if let Some(held) = acquire(&backend, "a", 30_000).await.unwrap() {
                        let released = backend.release(held.lock_id.into()).await.unwrap();
                        assert_eq!(released, ReleaseOutcome::Released);
                        return held.fence.value();
                    }
                    sleep_ms(2).await;
                }
            })
        })
        .collect();
    let mut fences = Vec::new();
    for task in tasks {
        fences.push(task.await.unwrap());
    }
    fences.sort_unstable();
    assert_eq!(fences, (1..=20).collect::<Vec<u64>>());
}
