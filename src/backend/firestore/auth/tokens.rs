//! An access token that is there when it is needed: the next one is asked for before it expires.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use tokio::time::{Instant, sleep};

use super::credentials::{Credentials, QUOTA_PROJECT};
use super::token::{Token, TokenError};
use crate::backend::firestore::retry::back_off;

/// How long before its end a token is replaced.
const AHEAD: Duration = Duration::from_secs(240);
/// Between tries to replace a token that is still valid.
const PAUSE: Duration = Duration::from_secs(10);
const TRIES: u32 = 3;
const MAX_DELAY: Duration = Duration::from_secs(1);

pub(in crate::backend::firestore) struct Tokens {
    credentials: Arc<Credentials>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    token: Option<Token>,
    asking: Option<Asking>,
    /// Not before then is a token replaced that is still valid.
    next_try: Option<Instant>,
}

/// Asked by the first who needs it; all who come meanwhile wait for the same answer.
type Asking = Shared<BoxFuture<'static, Result<Token, TokenError>>>;

impl Tokens {
    pub(in crate::backend::firestore) fn new(credentials: Credentials) -> Self {
        Self {
            credentials: Arc::new(credentials),
            state: Arc::default(),
        }
    }

    /// What to send along with a call.
    pub(in crate::backend::firestore) async fn headers(&self) -> Result<HeaderMap, TokenError> {
        let mut headers = HeaderMap::with_capacity(2);
        let token = self.token().await?;
        headers.insert(AUTHORIZATION, token.authorization);
        if let Some(project) = &self.credentials.quota_project {
            let project = HeaderValue::try_from(project)
                .map_err(|_| TokenError::lasting("the quota project is malformed"))?;
            headers.insert(QUOTA_PROJECT, project);
        }
        Ok(headers)
    }

    async fn token(&self) -> Result<Token, TokenError> {
        let asking = {
            let mut state = lock(&self.state);
            let now = Instant::now();
            if let Some(token) = state.token.clone() {
                let left = token.expires_at.map(|at| at.saturating_duration_since(now));
                if left.is_none_or(|left| left > AHEAD) {
                    return Ok(token);
                }
                if left.is_some_and(|left| !left.is_zero()) {
                    if state.next_try.is_none_or(|at| at <= now) {
                        drop(self.ask(&mut state));
                    }
                    return Ok(token);
                }
            }
            self.ask(&mut state)
        };
        asking.await
    }

    /// Goes on whether anybody waits or not.
    fn ask(&self, state: &mut State) -> Asking {
        if let Some(asking) = &state.asking {
            return asking.clone();
        }
        let credentials = Arc::clone(&self.credentials);
        let known = Arc::clone(&self.state);
        let asking = tokio::spawn(async move {
            let asked = new_token(&credentials).await;
            let mut state = lock(&known);
            state.asking = None;
            state.next_try = Some(Instant::now() + PAUSE);
            if let Ok(token) = &asked {
                state.token = Some(token.clone());
            }
            asked
        });
        let asking = asking
            .map(|asked| asked.unwrap_or_else(|_| Err(TokenError::passing("interrupted"))))
            .boxed()
            .shared();
        state.asking = Some(asking.clone());
        asking
    }
}

/// The sources bound each of their questions.
async fn new_token(credentials: &Credentials) -> Result<Token, TokenError> {
    let mut tries = 1;
    loop {
        match credentials.token().await {
            Err(error) if error.transient && tries < TRIES => {
                sleep(back_off(tries, MAX_DELAY)).await;
                tries += 1;
            }
            asked => return asked,
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
