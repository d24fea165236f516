//! Getting in.
//!
//! - [`url`], [`params`], [`libraries`] and [`sslmode`] where the server is and how to get in,
//!   [`place`] what it is called, [`tls`] rustls
//! - [`session`] one connection, [`dialer`] how connections are made
//! - [`lane`] a connection that the program's event loop serves, [`socket`] and [`wire`] its
//!   socket

mod dialer;
mod lane;
mod libraries;
mod params;
mod place;
mod session;
mod socket;
mod sslmode;
mod tls;
mod url;
mod wire;

pub(super) use dialer::Dialer;
pub(super) use params::{Target, resolve};
pub(super) use session::{Ear, Session, deaf, first_of, rows_of};
