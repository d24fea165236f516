//! Getting in.
//!
//! - [`url`], [`params`], [`libraries`] and [`sslmode`] where the server is and how to get in,
//!   [`place`] what it is called, [`tls`] rustls
//! - [`session`] one connection, [`dialer`] how connections are made

mod dialer;
mod libraries;
mod params;
mod place;
mod session;
mod sslmode;
mod tls;
mod url;

pub(super) use dialer::{Dialer, deaf};
pub(super) use params::{Target, resolve};
pub(super) use session::{Ear, Session, first_of, rows_of};
