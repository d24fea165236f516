//! A connection to a peer that answers what a test wants. The test runs the turns of the reactor, or
//! tokio does.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::Value;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::server::pour;
use crate::backend::redis::config::Node;
use crate::backend::redis::connection::{Answer, Connection, Settings};
use crate::backend::redis::format::scripts::{self, Call};
use crate::error::{Error, ErrorCode};
use crate::net::event_loop::{Event, EventLoop, Interest, Watched};
use crate::net::socket::{Socket, Stream};

#[derive(Default)]
struct Loop {
    elsewhere: AtomicBool,
    gathering: AtomicBool,
    nudges: AtomicUsize,
    watched: Mutex<Vec<Arc<dyn Watched>>>,
}

impl EventLoop for Loop {
    fn is_here(&self) -> bool {
        !self.elsewhere.load(Ordering::SeqCst)
    }
    fn is_gathering(&self) -> bool {
        self.gathering.load(Ordering::SeqCst)
    }
    fn watch(&self, socket: Arc<dyn Watched>) {
        self.watched.lock().unwrap().push(socket);
    }
    fn nudge(&self) {
        self.nudges.fetch_add(1, Ordering::SeqCst);
    }
}

struct Setup {
    reactor: Arc<Loop>,
    connection: Connection,
    server: TcpStream,
    /// Cancelled when the connection breaks.
    partner: CancellationToken,
}

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(100);
/// What takes longer is missing.
const PATIENCE: Duration = Duration::from_secs(120);

fn set_up(limit: Duration) -> Setup {
    set_up_with(limit, false)
}

fn set_up_to_share(limit: Duration) -> Setup {
    set_up_with(limit, true)
}

fn set_up_with(limit: Duration, shares_scripts: bool) -> Setup {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    socket.set_nonblocking(true).unwrap();
    let (server, _) = listener.accept().unwrap();
    server.set_read_timeout(Some(SHORT)).unwrap();
    let reactor = Arc::new(Loop::default());
    let partner = CancellationToken::new();
    let socket = Socket::new(Stream::EventLoop(Arc::new(socket)), None);
    let event_loop = Arc::clone(&reactor) as Arc<dyn EventLoop>;
    let settings = Settings {
        limit,
        shares_scripts,
        gets_pushes: false,
    };
    let connection = Connection::open(&node(), socket, Some(event_loop), settings);
    connection.cancel_when_broken(partner.clone());
    Setup {
        reactor,
        connection,
        server,
        partner,
    }
}

fn node() -> Node {
    serde_json::from_str(r#"{"host":"localhost","port":1}"#).unwrap()
}

impl Setup {
    fn send(&self, name: &str) -> Option<Answer> {
        self.connection.send(&Call {
            script: &scripts::RELEASE,
            keys: &[name],
            args: &[name],
        })
    }

    fn turn(&self) -> Interest {
        self.watched().turn(Event::Ready)
    }

    fn watched(&self) -> Arc<dyn Watched> {
        Arc::clone(&self.reactor.watched.lock().unwrap()[0])
    }

    /// Runs turns until the answer arrives.
    async fn answer(&self, mut answer: Answer) -> Result<Value, Error> {
        let answered = async {
            loop {
                self.turn();
                match answer.try_recv() {
                    Ok(answer) => return answer.map(|answer| answer.expect("an answer")),
                    Err(_) => sleep(Duration::from_millis(1)).await,
                }
            }
        };
        timeout(PATIENCE, answered).await.expect("an answer")
    }

    /// Makes this number of requests and answers them together.
    async fn answer_together(&mut self, count: usize) {
        self.reactor.gathering.store(false, Ordering::SeqCst);
        let answers: Vec<_> = (0..count).map(|_| self.send("x").unwrap()).collect();
        assert_eq!(self.arrived(), count);
        self.says(&":1\r\n".repeat(count));
        for answer in answers {
            assert_eq!(self.answer(answer).await, Ok(Value::Int(1)));
        }
    }

    /// Returns the number of requests that arrived until a moment without any.
    fn arrived(&mut self) -> usize {
        self.arrived_text().matches("EVAL").count()
    }

    fn arrived_text(&mut self) -> String {
        let mut bytes = vec![0; 1 << 16];
        let mut total = Vec::new();
        while let Ok(read @ 1..) = self.server.read(&mut bytes) {
            total.extend_from_slice(&bytes[..read]);
        }
        String::from_utf8(total).unwrap()
    }

    fn says(&mut self, text: &str) {
        self.server.write_all(text.as_bytes()).unwrap();
    }
}

#[tokio::test]
async fn answers_reach_the_callers_in_the_order_of_the_requests() {
    let mut setup = set_up(LONG);
    let answers: Vec<Answer> = ["a", "b", "c"].map(|name| setup.send(name).unwrap()).into();
    assert_eq!(setup.arrived(), 3);
    setup.says(":1\r\n:2\r\n*2\r\n:3");
    let mut answers = answers.into_iter();
    assert_eq!(
        setup.answer(answers.next().unwrap()).await,
        Ok(Value::Int(1))
    );
    assert_eq!(
        setup.answer(answers.next().unwrap()).await,
        Ok(Value::Int(2))
    );
    setup.says("\r\n:4\r\n");
    let last = setup.answer(answers.next().unwrap()).await;
    assert_eq!(last, Ok(Value::Array(vec![Value::Int(3), Value::Int(4)])));
    assert_eq!(setup.turn(), Interest::Read);
}

#[tokio::test]
async fn a_caller_that_gave_up_keeps_its_place_in_the_queue() {
    let mut setup = set_up(LONG);
    drop(setup.send("a"));
    let answer = setup.send("b").unwrap();
    setup.says(":1\r\n:2\r\n");
    assert_eq!(setup.answer(answer).await, Ok(Value::Int(2)));
}

#[tokio::test]
async fn only_the_thread_of_the_loop_may_send() {
    let setup = set_up(LONG);
    setup.reactor.elsewhere.store(true, Ordering::SeqCst);
    assert!(setup.send("a").is_none());
}

#[tokio::test]
async fn gathered_requests_are_written_in_parts_and_at_the_next_turn() {
    let mut setup = set_up(LONG);
    // With twelve requests in flight each part has three.
    setup.answer_together(12).await;
    setup.reactor.gathering.store(true, Ordering::SeqCst);
    let _gathered = ["a", "b"].map(|name| setup.send(name).unwrap());
    assert_eq!(setup.arrived(), 0);
    let _third = setup.send("c").unwrap();
    assert_eq!(setup.arrived(), 3);
    let _fourth = setup.send("d").unwrap();
    assert_eq!(setup.arrived(), 0);
    setup.turn();
    assert_eq!(setup.arrived(), 1);
}

#[tokio::test]
async fn a_few_requests_are_written_one_by_one() {
    let mut setup = set_up(LONG);
    setup.answer_together(11).await;
    setup.reactor.gathering.store(true, Ordering::SeqCst);
    let _answer = setup.send("a").unwrap();
    assert_eq!(setup.arrived(), 1);
}

/// Gathers these requests and writes them. Returns their answers, and what arrived.
async fn gather(setup: &mut Setup, names: &[&str]) -> (Vec<Answer>, String) {
    setup.answer_together(64).await;
    setup.reactor.gathering.store(true, Ordering::SeqCst);
    let answers = names.iter().map(|name| setup.send(name).unwrap());
    let answers = answers.collect();
    setup.turn();
    (answers, setup.arrived_text())
}

#[tokio::test]
async fn gathered_requests_share_a_script_and_each_gets_its_answer() {
    let mut setup = set_up_to_share(LONG);
    let (answers, text) = gather(&mut setup, &["a", "b", "c"]).await;
    assert_eq!(text.matches("EVAL").count(), 1);
    let values = ["3", "a", "b", "c", "1", "a", "1", "b", "1", "c"];
    let values: String = values.map(|value| format!("$1\r\n{value}\r\n")).concat();
    assert!(text.ends_with(&values), "{text}");

    setup.says("*3\r\n:1\r\n-WRONGTYPE x\r\n*2\r\n:3\r\n:4\r\n");
    let [a, b, c] = answers.try_into().unwrap();
    assert_eq!(setup.answer(a).await, Ok(Value::Int(1)));
    assert!(matches!(
        setup.answer(b).await,
        Ok(Value::ServerError(error)) if error.code() == "WRONGTYPE"
    ));
    let pair = Value::Array(vec![Value::Int(3), Value::Int(4)]);
    assert_eq!(setup.answer(c).await, Ok(pair));

    // The server knows the script now. A request that is alone has its own script.
    let (answers, text) = gather(&mut setup, &["d", "e"]).await;
    assert_eq!(text.matches("EVALSHA").count(), 1);
    setup.says("*2\r\n:1\r\n:1\r\n");
    for answer in answers {
        assert_eq!(setup.answer(answer).await, Ok(Value::Int(1)));
    }
    let (_answers, text) = gather(&mut setup, &["f"]).await;
    assert!(text.contains(&scripts::RELEASE.hash), "{text}");
}

#[tokio::test]
async fn requests_of_a_refused_script_are_repeated_one_by_one() {
    for refusal in ["NOSCRIPT x", "NOPERM x"] {
        let mut setup = set_up_to_share(LONG);
        let (answers, _) = gather(&mut setup, &["a", "b"]).await;
        setup.says(&format!("-{refusal}\r\n"));
        for mut answer in answers {
            let answer = loop {
                setup.turn();
                if let Ok(answer) = answer.try_recv() {
                    break answer;
                }
            };
            assert_eq!(answer, Ok(None));
        }
        // A server that forgot the script gets its text again.
        let (_answers, text) = gather(&mut setup, &["c", "d"]).await;
        assert_eq!(text.contains("EVALSHA"), refusal != "NOSCRIPT x");
    }
}

#[tokio::test]
async fn answers_that_do_not_fit_the_requests_end_the_connection() {
    for nonsense in [":1\r\n", "*1\r\n:1\r\n", "*3\r\n:1\r\n:2\r\n:3\r\n"] {
        let mut setup = set_up_to_share(LONG);
        let (answers, _) = gather(&mut setup, &["a", "b"]).await;
        setup.says(nonsense);
        for answer in answers {
            let error = setup.answer(answer).await.unwrap_err();
            assert_eq!(error.code, ErrorCode::Internal);
            assert!(error.outcome_unknown);
        }
        assert_eq!(setup.turn(), Interest::Nothing);
    }
}

#[tokio::test]
async fn other_requests_keep_their_place_and_a_script_has_a_limit() {
    let mut setup = set_up_to_share(LONG);
    setup.answer_together(64).await;
    setup.reactor.gathering.store(true, Ordering::SeqCst);
    let first = setup.send("a").unwrap();
    let lookup = setup.connection.send(&Call {
        script: &scripts::LOOKUP,
        keys: &["b"],
        args: &["b"],
    });
    let last = setup.send("c").unwrap();
    setup.turn();
    assert_eq!(setup.arrived(), 3);
    setup.says(":1\r\n:2\r\n:3\r\n");
    for (answer, expected) in [(first, 1), (lookup.unwrap(), 2), (last, 3)] {
        assert_eq!(setup.answer(answer).await, Ok(Value::Int(expected)));
    }
    let (_answers, text) = gather(&mut setup, &["x"; 40]).await;
    assert_eq!(text.matches("EVAL").count(), 3);
}

#[tokio::test]
async fn another_thread_writes_for_a_busy_loop() {
    let mut setup = set_up(SHORT);
    setup.answer_together(12).await;
    setup.reactor.gathering.store(true, Ordering::SeqCst);
    let _answer = setup.send("second").unwrap();
    let arrived = async {
        while setup.arrived() == 0 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, arrived).await.expect("a request");
}

#[tokio::test]
async fn another_thread_reads_for_a_busy_loop() {
    let mut setup = set_up(LONG);
    let answer = setup.send("a").unwrap();
    assert_eq!(setup.arrived(), 1);
    setup.says(":1\r\n");
    let answer = timeout(PATIENCE, answer).await.expect("an answer");
    assert_eq!(answer.unwrap().unwrap(), Some(Value::Int(1)));
}

#[tokio::test]
async fn a_silent_server_ends_the_connection() {
    let setup = set_up(SHORT);
    let (first, second) = (setup.send("a").unwrap(), setup.send("b").unwrap());
    // Nothing makes the loop run a turn.
    while setup.reactor.nudges.load(Ordering::SeqCst) == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    for answer in [first, second] {
        let error = setup.answer(answer).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::NetworkTimeout);
        assert!(error.outcome_unknown);
    }
    assert_eq!(setup.turn(), Interest::Nothing);
    assert!(setup.send("c").is_none());
}

#[tokio::test]
async fn a_slow_server_is_not_silent() {
    let mut setup = set_up(SHORT);
    let slow = setup.send("slow").unwrap();
    let mut next = setup.send("next").unwrap();
    std::thread::sleep(SHORT);
    // Part of another answer came, but not this one.
    setup.says(":");
    let error = setup.answer(slow).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::NetworkTimeout);
    assert_eq!(
        next.try_recv().unwrap().unwrap_err().code,
        ErrorCode::NetworkTimeout
    );
    // The undo, on any thread, follows these requests.
    setup.reactor.elsewhere.store(true, Ordering::SeqCst);
    let undo = setup.send("undo").unwrap();
    setup.says("1\r\n:2\r\n:3\r\n");
    assert_eq!(setup.answer(undo).await, Ok(Value::Int(3)));
    assert!(setup.send("no reason any more").is_none());
}

#[tokio::test]
async fn an_answer_that_came_in_time_is_not_late_because_it_is_read_late() {
    let mut setup = set_up(SHORT);
    let answer = setup.send("a").unwrap();
    setup.says(":1\r\n");
    std::thread::sleep(3 * SHORT);
    setup.watched().turn(Event::Gathered);
    assert_eq!(setup.answer(answer).await, Ok(Value::Int(1)));
}

#[tokio::test]
async fn a_broken_connection_fails_all_requests() {
    let setup = set_up(LONG);
    let answers = ["a", "b"].map(|name| setup.send(name).unwrap());
    setup.server.shutdown(std::net::Shutdown::Both).unwrap();
    for answer in answers {
        let error = setup.answer(answer).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::ServiceUnavailable);
        assert!(error.outcome_unknown);
        assert!(setup.partner.is_cancelled());
    }
    assert_eq!(setup.turn(), Interest::Nothing);
}

#[tokio::test]
async fn answers_before_a_reset_arrive_and_other_requests_fail_in_the_same_turn() {
    let mut setup = set_up(LONG);
    let [mut first, mut second] = ["a", "b"].map(|name| setup.send(name).unwrap());
    setup.says(":1\r\n");
    let (watched, partner) = (setup.watched(), setup.partner.clone());
    let server = setup.server;
    // Closing the socket before the requests are read resets the connection.
    drop(server);
    assert_eq!(watched.turn(Event::Broken), Interest::Nothing);
    assert_eq!(first.try_recv().unwrap(), Ok(Some(Value::Int(1))));
    let error = second.try_recv().unwrap().unwrap_err();
    assert_eq!(error.code, ErrorCode::ServiceUnavailable);
    assert!(error.outcome_unknown);
    assert!(partner.is_cancelled());
}

#[tokio::test]
async fn data_of_another_protocol_ends_the_connection() {
    for nonsense in ["HTTP/1.1 400 Bad Request\r\n\r\n", ":1\r\n:2\r\n"] {
        let mut setup = set_up(LONG);
        let answer = setup.send("a").unwrap();
        let extra = nonsense.starts_with(':');
        setup.says(nonsense);
        let answer = setup.answer(answer).await;
        if extra {
            assert_eq!(answer, Ok(Value::Int(1)));
        } else {
            let error = answer.unwrap_err();
            assert_eq!(error.code, ErrorCode::Internal);
            assert!(error.outcome_unknown);
        }
        assert_eq!(setup.turn(), Interest::Nothing);
    }
}

#[tokio::test]
async fn an_endless_reply_is_not_kept() {
    for (start, more) in [
        ("$570000000\r\n", "x"),
        ("+", "x"),
        ("*2000000\r\n", ":1\r\n"),
    ] {
        let setup = set_up(LONG);
        let answer = setup.send("a").unwrap();
        let mut server = setup.server.try_clone().unwrap();
        let peer = tokio::task::spawn_blocking(move || pour(&mut server, start, more));
        let error = setup.answer(answer).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::Internal);
        assert!(error.outcome_unknown);
        assert_eq!(setup.turn(), Interest::Nothing);
        assert!(setup.partner.is_cancelled());
        setup.reactor.watched.lock().unwrap().clear();
        drop(setup);
        // The task that watches the time-outs drops the socket.
        sleep(SHORT).await;
        // The buffers of the system accept more than what was read.
        assert!(peer.await.unwrap() < 32 << 20);
    }
}

#[tokio::test]
async fn a_full_socket_delays_writing() {
    let mut setup = set_up(LONG);
    let long = "x".repeat(100_000);
    let answers: Vec<_> = (0..200).map(|_| setup.send(&long).unwrap()).collect();
    assert_eq!(setup.turn(), Interest::ReadAndWrite);
    assert!(setup.reactor.nudges.load(Ordering::SeqCst) > 0);
    let mut server = setup.server.try_clone().unwrap();
    server.set_read_timeout(None).unwrap();
    let reader = std::thread::spawn(move || {
        let mut left: usize = 200 * (2 * 100_000);
        let mut bytes = vec![0; 1 << 20];
        while left > 0 {
            left = left.saturating_sub(server.read(&mut bytes).unwrap());
        }
    });
    while setup.turn() == Interest::ReadAndWrite {
        sleep(Duration::from_millis(1)).await;
    }
    reader.join().unwrap();
    setup.says(&":1\r\n".repeat(200));
    for answer in answers {
        assert_eq!(setup.answer(answer).await, Ok(Value::Int(1)));
    }
}

#[tokio::test]
async fn a_retired_connection_answers_its_requests() {
    let setup = set_up(LONG);
    let answer = setup.send("a").unwrap();
    {
        let mut retiring = std::pin::pin!(setup.connection.retire());
        assert!(timeout(SHORT, &mut retiring).await.is_err());
        let mut server = setup.server.try_clone().unwrap();
        server.write_all(b":1\r\n").unwrap();
        assert_eq!(setup.answer(answer).await, Ok(Value::Int(1)));
        retiring.await;
    }
    assert_eq!(setup.turn(), Interest::Nothing);
    assert!(!setup.partner.is_cancelled());
}

/// Opens a connection that tokio serves.
async fn on_tokio(settings: Settings) -> (Connection, tokio::net::TcpStream) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    let socket = Socket::new(Stream::Tcp(stream), None);
    (Connection::open(&node(), socket, None, settings), server)
}

const ON_TOKIO: Settings = Settings {
    limit: LONG,
    shares_scripts: true,
    gets_pushes: true,
};

#[tokio::test]
async fn tokio_serves_a_connection_without_an_event_loop() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (connection, mut server) = on_tokio(ON_TOKIO).await;
    let mut pushes = connection.pushes().unwrap();
    let peer = async {
        let mut request = [0; 14];
        server.read_exact(&mut request).await.unwrap();
        assert_eq!(&request, b"*1\r\n$4\r\nPING\r\n");
        let push = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n+PONG\r\n";
        server.write_all(push).await.unwrap();
    };
    let (answer, ()) = tokio::join!(connection.ask(&[b"PING"]), peer);
    assert_eq!(answer, Ok(Value::SimpleString("PONG".to_owned())));
    let push = pushes.try_recv().unwrap();
    assert_eq!(push.kind, redis::PushKind::Invalidate);
    assert_eq!(
        push.data,
        [Value::Array(vec![Value::BulkString(b"k".to_vec())])]
    );

    // Both ends see the end of the connection.
    let over = connection.over();
    drop(connection);
    assert!(over.is_cancelled());
    assert_eq!(
        timeout(PATIENCE, server.read(&mut [0; 1]))
            .await
            .unwrap()
            .unwrap(),
        0
    );
}

#[tokio::test]
async fn on_tokio_a_silent_server_ends_the_connection() {
    let settings = Settings {
        limit: SHORT,
        ..ON_TOKIO
    };
    let (connection, _server) = on_tokio(settings).await;
    let error = connection.ask(&[b"PING"]).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::NetworkTimeout);
    assert!(connection.is_over());
    let error = connection.ask(&[b"PING"]).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::NetworkTimeout);
}

#[tokio::test]
async fn on_tokio_a_server_that_hangs_up_ends_the_connection() {
    let (connection, server) = on_tokio(ON_TOKIO).await;
    let (answer, ()) = tokio::join!(connection.ask(&[b"PING"]), async { drop(server) });
    let error = answer.unwrap_err();
    assert_eq!(error.code, ErrorCode::ServiceUnavailable);
    assert!(error.outcome_unknown && connection.is_over());
}

#[tokio::test]
async fn more_requests_than_may_be_in_flight_wait_until_the_limit() {
    let setup = set_up(SHORT);
    setup.reactor.gathering.store(true, Ordering::SeqCst);
    let _in_flight: Vec<_> = (0..1 << 16).map(|_| setup.send("x").unwrap()).collect();
    assert!(setup.send("y").is_none());
    assert!(setup.connection.ask(&[b"PING"]).await.is_err());
}
