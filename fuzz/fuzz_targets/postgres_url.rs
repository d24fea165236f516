//! URLs of PostgreSQL. `s3cret` stands for a password: no message may show it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use syncguard::backend::postgres::fuzzing::resolve;

const SECRET: &str = "s3cret";

fuzz_target!(|url: &str| {
    if names_a_file(url) {
        return;
    }
    let said = match resolve(url) {
        Ok(place) => place,
        Err(error) => format!("{error:?}"),
    };
    assert!(!is_password(url) || !said.contains(SECRET), "{said}");
});

/// It would be read.
fn names_a_file(url: &str) -> bool {
    url.contains("ssl")
        && ["rootcert", "cert", "key", "%"]
            .iter()
            .any(|it| url.contains(it))
}

/// Whether the secret is in the password only, however little of it is encoded.
fn is_password(url: &str) -> bool {
    let Some((login, place)) = url
        .split_once("://")
        .and_then(|(_, rest)| rest.rsplit_once('@'))
    else {
        return false;
    };
    let Some((user, password)) = login.split_once(':') else {
        return false;
    };
    // With a parameter of that name it could be a host, which may be shown.
    let hides_a_host = login.contains("host") || login.contains('?') && login.contains('%');
    !user.contains(['/', '?', ','])
        && !hides_a_host
        && password.contains(SECRET)
        && !user.contains(SECRET)
        && !place.contains(SECRET)
}
