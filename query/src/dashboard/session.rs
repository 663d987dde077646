//! Browsers that have logged in, and one-time keys to do so. In memory: a restart logs everyone out.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, header};

const COOKIE: &str = "highwater";
/// How long a browser stays logged in.
const SESSION: Duration = Duration::from_secs(12 * 3_600);
/// How long a one-time key is good.
const KEY: Duration = Duration::from_secs(600);
/// Sessions, and keys, at a time; the one that ends next makes room.
const MOST: usize = 1_000;

#[derive(Debug)]
struct Grant {
    token: String,
    until: Instant,
}

/// Secrets that stand for tokens, each for a time.
#[derive(Debug, Default)]
struct Grants(Mutex<HashMap<String, Grant>>);

impl Grants {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Grant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn issue(&self, token: &str, now: Instant, lifetime: Duration) -> String {
        let secret: String = rand::random::<[u8; 32]>().iter().map(|byte| format!("{byte:02x}")).collect();
        let mut all = self.all();
        all.retain(|_, grant| grant.until > now);
        if all.len() >= MOST
            && let Some(next) = all.iter().min_by_key(|(_, grant)| grant.until).map(|(secret, _)| secret.clone())
        {
            all.remove(&next);
        }
        all.insert(secret.clone(), Grant { token: token.to_owned(), until: now + lifetime });
        secret
    }

    fn token(&self, secret: &str, now: Instant) -> Option<String> {
        self.all().get(secret).filter(|grant| grant.until > now).map(|grant| grant.token.clone())
    }

    fn take(&self, secret: &str, now: Instant) -> Option<String> {
        self.all().remove(secret).filter(|grant| grant.until > now).map(|grant| grant.token)
    }
}

/// The browsers that are logged in, and the keys that let more in.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    keys: Grants,
    sessions: Grants,
}

impl Sessions {
    /// A key that is good once.
    pub(crate) fn issue_key(&self, token: &str, now: Instant) -> String {
        self.keys.issue(token, now, KEY)
    }

    /// The token that a key stands for. The key is gone afterwards.
    pub(crate) fn redeem(&self, key: &str, now: Instant) -> Option<String> {
        self.keys.take(key, now)
    }

    /// Begins a session, and returns its cookie.
    pub(crate) fn begin(&self, token: &str, now: Instant, encrypted: bool) -> String {
        cookie(&self.sessions.issue(token, now, SESSION), SESSION, encrypted)
    }

    /// The token of the session that a request belongs to.
    pub(crate) fn token(&self, headers: &HeaderMap) -> Option<String> {
        self.sessions.token(secret(headers)?, Instant::now())
    }

    /// Ends a request's session, and returns the cookie that makes the browser forget it.
    pub(crate) fn end(&self, headers: &HeaderMap, encrypted: bool) -> String {
        if let Some(secret) = secret(headers) {
            self.sessions.take(secret, Instant::now());
        }
        cookie("", Duration::ZERO, encrypted)
    }
}

fn cookie(secret: &str, lifetime: Duration, encrypted: bool) -> String {
    let secure = if encrypted { "; Secure" } else { "" };
    format!("{COOKIE}={secret}; Path=/; Max-Age={}; HttpOnly; SameSite=Strict{secure}", lifetime.as_secs())
}

fn secret(headers: &HeaderMap) -> Option<&str> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(name, value)| (name == COOKIE).then_some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_good_once_and_not_for_long() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let key = sessions.issue_key("t", now);
        assert_eq!(key.len(), 64);
        assert_eq!(sessions.redeem(&key, now).as_deref(), Some("t"));
        assert_eq!(sessions.redeem(&key, now), None);
        let late = sessions.issue_key("t", now);
        assert_eq!(sessions.redeem(&late, now + KEY), None);
        assert_eq!(sessions.redeem("", now), None);
    }

    #[test]
    fn a_session_lasts_until_its_end() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let cookie = sessions.begin("t", now, true);
        assert!(cookie.contains("HttpOnly; SameSite=Strict; Secure"), "{cookie}");
        let mut headers = HeaderMap::new();
        let pair = cookie.split(';').next().unwrap();
        headers.insert(header::COOKIE, format!("other=1; {pair}").parse().unwrap());
        assert_eq!(sessions.token(&headers).as_deref(), Some("t"));
        assert!(sessions.end(&headers, false).contains("Max-Age=0"));
        assert_eq!(sessions.token(&headers), None);
    }

    #[test]
    fn there_is_an_end_to_how_many() {
        let (grants, now) = (Grants::default(), Instant::now());
        let first = grants.issue("first", now, Duration::from_secs(1));
        for _ in 0..MOST {
            grants.issue("t", now, SESSION);
        }
        assert_eq!(grants.all().len(), MOST);
        assert_eq!(grants.token(&first, now), None);
    }
}
