//! Who this client is to Firestore, and the access tokens that tell it so.
//!
//! - [`credentials`] where they are found and of which kind they are
//! - [`service_account`], [`user`], [`impersonated`], [`external`], [`metadata`] the kinds
//! - [`subject`] and [`aws`] what an external account is exchanged for
//! - [`tokens`] keeps a token fresh, [`channel`] sends it along with every call
//! - [`http`] how token servers are asked, [`project`] the project when none is named

mod aws;
mod channel;
mod credentials;
mod external;
mod http;
mod impersonated;
mod metadata;
mod project;
mod service_account;
mod subject;
mod token;
mod tokens;
mod user;

pub(super) use channel::AuthorizedChannel;
pub(super) use credentials::credentials;
pub(super) use http::trusted_roots;
pub(super) use project::project_id;
pub(super) use token::TokenError;
pub(super) use tokens::Tokens;

/// What the tokens are for: all that the account may do.
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
/// How this client is called towards servers.
pub(super) const USER_AGENT: &str = concat!("syncguard/", env!("CARGO_PKG_VERSION"));
