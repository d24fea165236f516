//! What runs on AWS proves who it is by a signed request to AWS that Google may send.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write;

use hmac::{Hmac, KeyInit, Mac};
use hyper::{Request, Uri};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::http;
use super::token::TokenError;
use crate::lock::hash::hex;
use crate::lock::time::system_now_ms;

const USUAL_VERIFICATION_URL: &str =
    "https://sts.{region}.amazonaws.com?Action=GetCallerIdentity&Version=2011-06-15";
const SESSION_SECONDS: &str = "21600";

#[derive(Deserialize)]
pub(super) struct Aws {
    /// Tells the kind of the credential source from others.
    #[serde(rename = "environment_id")]
    _environment: String,
    region_url: Option<String>,
    url: Option<String>,
    regional_cred_verification_url: Option<String>,
    imdsv2_session_token_url: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AwsKeys {
    access_key_id: String,
    secret_access_key: String,
    token: Option<String>,
}

impl Aws {
    pub(super) async fn token(&self, audience: &str) -> Result<String, TokenError> {
        let session = self.session().await?;
        let region = self.region(session.as_deref()).await?;
        let keys = self.keys(session.as_deref()).await?;
        let url = self
            .regional_cred_verification_url
            .as_deref()
            .unwrap_or(USUAL_VERIFICATION_URL)
            .replace("{region}", &region);
        let url = if url.starts_with("http") {
            url
        } else {
            format!("https://{url}")
        };
        let request = signed(&url, &region, &keys, audience, system_now_ms() / 1_000)?;
        Ok(form_urlencoded::byte_serialize(request.to_string().as_bytes()).collect())
    }

    /// What newer metadata servers want to see with every question.
    async fn session(&self) -> Result<Option<String>, TokenError> {
        let Some(url) = &self.imdsv2_session_token_url else {
            return Ok(None);
        };
        let request = Request::put(url)
            .header("x-aws-ec2-metadata-token-ttl-seconds", SESSION_SECONDS)
            .body(String::new());
        text(request).await.map(Some)
    }

    async fn region(&self, session: Option<&str>) -> Result<String, TokenError> {
        let known = env::var("AWS_REGION").or_else(|_| env::var("AWS_DEFAULT_REGION"));
        if let Ok(region) = known {
            return Ok(region);
        }
        let url = self
            .region_url
            .as_deref()
            .ok_or_else(|| TokenError::lasting("the AWS region is not known"))?;
        let zone = ask(url, session).await?;
        Ok(region_of(zone.trim()).to_owned())
    }

    async fn keys(&self, session: Option<&str>) -> Result<AwsKeys, TokenError> {
        if let Ok(access_key_id) = env::var("AWS_ACCESS_KEY_ID")
            && let Ok(secret_access_key) = env::var("AWS_SECRET_ACCESS_KEY")
        {
            return Ok(AwsKeys {
                access_key_id,
                secret_access_key,
                token: env::var("AWS_SESSION_TOKEN").ok(),
            });
        }
        let url = self
            .url
            .as_deref()
            .ok_or_else(|| TokenError::lasting("there are no AWS security credentials"))?;
        let role = ask(url, session).await?;
        let url = format!("{}/{}", url.trim_end_matches('/'), role.trim());
        serde_json::from_str(&ask(&url, session).await?)
            .map_err(|_| TokenError::lasting("the AWS metadata server told no credentials"))
    }
}

async fn ask(url: &str, session: Option<&str>) -> Result<String, TokenError> {
    let mut request = Request::get(url);
    if let Some(session) = session {
        request = request.header("x-aws-ec2-metadata-token", session);
    }
    text(request.body(String::new())).await
}

async fn text(request: hyper::http::Result<Request<String>>) -> Result<String, TokenError> {
    let request = request
        .map_err(|_| TokenError::lasting("a URL of the AWS credential source is malformed"))?;
    let answer = http::send(request).await?;
    String::from_utf8(answer.body.into())
        .map_err(|_| TokenError::lasting("the AWS metadata server's answer is not text"))
}

/// `us-east-1` of the zone `us-east-1b`.
fn region_of(zone: &str) -> &str {
    let bare = zone.strip_suffix(|last: char| last.is_ascii_alphabetic());
    bare.filter(|it| it.ends_with(|last: char| last.is_ascii_digit()))
        .unwrap_or(zone)
}

/// Signature version 4, with all that Google needs to send the request on.
fn signed(
    url: &str,
    region: &str,
    keys: &AwsKeys,
    audience: &str,
    now: u64,
) -> Result<serde_json::Value, TokenError> {
    let malformed = || TokenError::lasting("regional_cred_verification_url is malformed");
    let url: Uri = url.parse().map_err(|_| malformed())?;
    let host = url.host().ok_or_else(malformed)?;
    let query = url.query().unwrap_or_default().as_bytes();
    let query: BTreeMap<_, _> = form_urlencoded::parse(query).collect();
    let query = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(query)
        .finish();
    let time = amz_date(now);
    let date = &time[..8];

    let mut headers = BTreeMap::from([
        ("host", host),
        ("x-amz-date", &time),
        ("x-goog-cloud-target-resource", audience),
    ]);
    if let Some(token) = &keys.token {
        headers.insert("x-amz-security-token", token);
    }
    let names: Vec<_> = headers.keys().copied().collect();
    let names = names.join(";");
    let mut canonical = format!("POST\n/\n{query}\n");
    for (name, value) in &headers {
        let _ = writeln!(canonical, "{name}:{}", value.trim());
    }
    let _ = write!(canonical, "\n{names}\n{}", hex(&Sha256::digest("")));

    let scope = format!("{date}/{region}/sts/aws4_request");
    let to_sign = format!(
        "AWS4-HMAC-SHA256\n{time}\n{scope}\n{}",
        hex(&Sha256::digest(canonical))
    );
    let mut key = format!("AWS4{}", keys.secret_access_key).into_bytes();
    for part in [date, region, "sts", "aws4_request"] {
        key = hmac(&key, part);
    }
    let signature = hex(&hmac(&key, &to_sign));
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
        keys.access_key_id
    );
    let headers: Vec<_> = headers
        .into_iter()
        .chain([("Authorization", authorization.as_str())])
        .map(|(key, value)| json!({"key": key, "value": value}))
        .collect();
    Ok(json!({"url": url.to_string(), "method": "POST", "headers": headers, "body": ""}))
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    // A key of any length will do for it.
    Hmac::<Sha256>::new_from_slice(key).map_or_else(
        |_| Vec::new(),
        |mac| mac.chain_update(text).finalize().into_bytes().to_vec(),
    )
}

/// `20150830T123600Z`, of seconds since 1970.
fn amz_date(now: u64) -> String {
    let (days, seconds) = (now / 86_400, now % 86_400);
    // Years that begin in March have their leap day at the end; 400 of them are an era.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, date) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (1_440_938_160, "20150830T123600Z"),
            (1_735_689_599, "20241231T235959Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            assert_eq!(amz_date(seconds), date);
        }
    }

    /// As google-auth-library signs it.
    #[test]
    fn the_signature_is_the_one_that_google_expects() {
        let keys = AwsKeys {
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret_access_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned(),
            token: Some("session".to_owned()),
        };
        let url = USUAL_VERIFICATION_URL.replace("{region}", "us-east-2");
        let audience = "//iam.googleapis.com/the/pool";
        let request = signed(&url, "us-east-2", &keys, audience, 1_440_938_160).unwrap();
        let authorization = &request["headers"][4];
        assert_eq!(authorization["key"], "Authorization");
        assert_eq!(
            authorization["value"],
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-2/sts/aws4_request, \
             SignedHeaders=host;x-amz-date;x-amz-security-token;x-goog-cloud-target-resource, \
             Signature=85b221ee3668dba29e2c47914225fc1ff86e5186eca6045b265650c18a8575c2"
        );
    }

    #[test]
    fn a_zone_is_in_a_region() {
        assert_eq!(region_of("us-east-1b"), "us-east-1");
        assert_eq!(region_of("us-east-1"), "us-east-1");
    }
}
