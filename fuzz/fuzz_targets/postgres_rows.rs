//! Rows of PostgreSQL, through the driver. The first byte says which of the first eight columns are null;
//! the texts are the rest, divided by zero bytes.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use syncguard::backend::AcquireOutcome;
use syncguard::backend::postgres::fuzzing as postgres;
use syncguard::lock::fence::FENCE_MAX;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage, SimpleQueryRow};

const COLUMNS: u8 = 9;
/// The largest integer that JavaScript knows exactly.
const LARGEST_MS: u64 = 1 << 53;

thread_local! {
    static SERVER: RefCell<Server> = RefCell::new(Server::start());
}

fuzz_target!(|data: &[u8]| {
    let Some((nulls, texts)) = data.split_first() else {
        return;
    };
    let mut texts = texts.split(|byte| *byte == 0);
    let columns: Vec<Option<&[u8]>> = (0..COLUMNS)
        .map(|column| {
            let is_null = nulls.checked_shr(column.into()).unwrap_or(0) & 1 == 1;
            (!is_null).then(|| texts.next().unwrap_or_default())
        })
        .collect();
    let row = SERVER.with_borrow_mut(|server| server.ask_for(&columns));
    match postgres::acquired(&row) {
        Ok(AcquireOutcome::Acquired {
            fence,
            expires_at_ms,
            ..
        }) => {
            assert!(fence.value() <= FENCE_MAX && expires_at_ms <= LARGEST_MS);
        }
        Ok(AcquireOutcome::Locked(_)) => {}
        Err(error) => {
            let nothing_done = columns[0] == Some(b"no fence left");
            assert_ne!(error.outcome_unknown, nothing_done);
        }
    }
    let _ = postgres::missed(&row);
    for record in [postgres::record(&row), postgres::share(&row)]
        .into_iter()
        .flatten()
    {
        assert!(record.expires_at_ms.max(record.acquired_at_ms) <= LARGEST_MS);
        assert!(record.fence.value() <= FENCE_MAX);
    }
    let _ = postgres::findings(&row);
});

struct Server {
    runtime: Runtime,
    client: Client,
    connection: DuplexStream,
}

impl Server {
    fn start() -> Self {
        let runtime = Builder::new_current_thread().build().unwrap();
        let (theirs, mut connection) = tokio::io::duplex(1 << 20);
        let client = runtime.block_on(async {
            let ready = [message(b'R', &[0; 4]), message(b'Z', b"I")].concat();
            connection.write_all(&ready).await.unwrap();
            let (client, driver) = Config::new()
                .user("user")
                .connect_raw(theirs, NoTls)
                .await
                .unwrap();
            tokio::spawn(driver);
            let _ = connection.read(&mut [0; 1 << 10]).await;
            client
        });
        Self {
            runtime,
            client,
            connection,
        }
    }

    fn ask_for(&mut self, columns: &[Option<&[u8]>]) -> SimpleQueryRow {
        let answer = answer(columns);
        let mut question = [0; 1 << 10];
        let rows = self.runtime.block_on(async {
            let (rows, ()) = tokio::join!(self.client.simple_query(""), async {
                let _ = self.connection.read(&mut question).await;
                self.connection.write_all(&answer).await.unwrap();
            });
            rows.unwrap()
        });
        rows.into_iter()
            .find_map(|message| match message {
                SimpleQueryMessage::Row(row) => Some(row),
                _ => None,
            })
            .unwrap()
    }
}

fn answer(columns: &[Option<&[u8]>]) -> Vec<u8> {
    let count = u16::from(COLUMNS).to_be_bytes();
    // A name, then the table, the type and the format, of which nothing is used.
    let description = [
        &count[..],
        &[b"c\0".as_slice(), &[0; 18]].concat().repeat(columns.len()),
    ];
    let values = columns.iter().flat_map(|column| match column {
        Some(text) => [&(text.len() as i32).to_be_bytes(), *text].concat(),
        None => (-1_i32).to_be_bytes().to_vec(),
    });
    let row: Vec<u8> = count.into_iter().chain(values).collect();
    [
        message(b'T', &description.concat()),
        message(b'D', &row),
        message(b'C', b"SELECT 1\0"),
        message(b'Z', b"I"),
    ]
    .concat()
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = body.len() as u32 + 4;
    [&[kind], &length.to_be_bytes()[..], body].concat()
}
