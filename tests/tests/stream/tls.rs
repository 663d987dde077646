//! Encrypted connections to the broker.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tests::standin::{Launch, Process};

use super::{check, load, node, settings};

/// The cluster's domain. Its brokers are names below it.
const DOMAIN: &str = "fluvio.test";

fn openssl(folder: &Path, line: &str) -> Result<()> {
    let made = Command::new("openssl").args(line.split(' ')).current_dir(folder).output().context("openssl")?;
    ensure!(made.status.success(), "openssl {line}: {}", String::from_utf8_lossy(&made.stderr));
    Ok(())
}

/// A key `NAME.key`, and its certificate `NAME.pem`, signed by `ca`.
fn certify(folder: &Path, name: &str, names: &str) -> Result<()> {
    openssl(folder, &format!("req -new -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -subj /CN={name}"))?;
    std::fs::write(folder.join("names"), format!("subjectAltName={names}"))?;
    let sign = "-CA ca.pem -CAkey ca.key -CAcreateserial -days 10 -extfile names";
    openssl(folder, &format!("x509 -req -in {name}.csr -out {name}.pem {sign}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn clicks_go_through_encrypted_connections() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let tls = folder.path();
    openssl(tls, "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 10 -subj /CN=ca")?;
    certify(tls, "server", &format!("DNS:{DOMAIN},DNS:*.{DOMAIN}"))?;
    certify(tls, "client", "DNS:client")?;
    let records = tempfile::tempdir()?;
    let mut broker = Process::new(Launch::Test("standin::serve"), records.path())?.with_tls(tls);
    broker.start()?;
    let anonymous = format!("{}\ntls = \"anonymous\"", settings(&broker.address(), 2));
    let mut unknown = node(&anonymous)?;
    unknown.start().await?;
    let clicks = load(&unknown);
    clicks.more(300).await?;
    let ledger = clicks.end().await?;
    check(&unknown, &ledger).await?;

    // from now on clients must show who they are
    broker.kill()?;
    std::fs::copy(tls.join("ca.pem"), tls.join("clients.pem"))?;
    broker.start()?;
    unknown.readyz_says("ready, but").await?;
    unknown.kill()?;
    let file = |name: &str| tls.join(name).display().to_string();
    let verified = format!(
        "{}\ntls = \"verified\"\ntls_domain = \"{DOMAIN}\"\ntls_key = \"{}\"\ntls_cert = \"{}\"\ntls_ca = \"{}\"",
        settings(&broker.address(), 2),
        file("client.key"),
        file("client.pem"),
        file("ca.pem")
    );
    let mut known = node(&verified)?;
    known.start().await?;
    let clicks = load(&known);
    clicks.more(300).await?;
    let ledger = clicks.end().await?;
    check(&known, &ledger).await?;
    known.readyz_says("ready\n").await?;
    known.stop().await
}
