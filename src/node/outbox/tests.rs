use super::*;

/// An outbox with the memory in which JavaScript confirms locks, and the sum of the ids of released locks.
struct Delivery {
    outbox: Outbox,
    cells: Box<[f64; CELLS]>,
    released: Arc<AtomicU64>,
}

impl Delivery {
    fn new() -> Self {
        let mut cells = Box::new([0.0; CELLS]);
        let receipts = Receipts::in_memory(&mut cells);
        Self {
            outbox: Outbox::new(0, receipts, || {}),
            cells,
            released: Arc::default(),
        }
    }

    fn lock(&self, id: u64) -> Reply {
        let released = Arc::clone(&self.released);
        let reply: Reply = "A".to_owned().into();
        reply.or_else(move || {
            released.fetch_add(id, Ordering::Relaxed);
        })
    }

    fn confirm(&mut self, id: u64) {
        let next = FIRST + self.cells[COUNT] as usize;
        self.cells[COUNT] += 1.0;
        if let Some(cell) = self.cells.get_mut(next) {
            *cell = id as f64;
        }
    }

    fn end(&self) -> u64 {
        self.outbox.end();
        self.released.load(Ordering::Relaxed)
    }
}

#[test]
fn a_lock_that_was_not_confirmed_is_released_at_the_end() {
    let mut delivery = Delivery::new();
    for id in [1, 10, 100, 1000] {
        delivery.outbox.hand_over(id, delivery.lock(id));
    }
    delivery.confirm(100);
    delivery.outbox.read_receipts();
    assert_eq!(delivery.released.load(Ordering::Relaxed), 0);
    delivery.confirm(1);
    assert_eq!(delivery.end(), 1010);
    delivery.outbox.hand_over(10_000, delivery.lock(10_000));
    delivery.outbox.queue.push(20_000, delivery.lock(20_000));
    assert_eq!(delivery.end(), 31_010);
}

#[test]
fn a_lock_that_a_call_returned_is_confirmed_by_its_id_too() {
    let mut delivery = Delivery::new();
    for id in [1, 10] {
        delivery.outbox.hand_over_at_once(id, delivery.lock(id));
        assert_eq!(delivery.cells[RETURNED], id as f64);
    }
    delivery.confirm(10);
    assert_eq!(delivery.end(), 1);
}

#[test]
fn locks_beyond_the_room_for_receipts_are_not_released() {
    let mut delivery = Delivery::new();
    for id in 1..=ROOM as u64 + 1 {
        delivery.outbox.hand_over(id, delivery.lock(id));
        delivery.confirm(id);
    }
    assert_eq!(delivery.end(), 0);
}
