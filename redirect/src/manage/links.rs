//! The calls on links (interface §3).

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use schemas::{Analytics, Link, LinkId, LinkStatus, Principal, Scope, UtcMicros};
use serde::Serialize;

use super::Manage;
use super::auth::Caller;
use super::input::{Code, Fields, Params};
use super::problem::Problem;
use crate::links::{Change, Edit, LinkError, ListLinks, NewLink, Which};

/// Links on a page when the caller doesn't say.
const DEFAULT_LIMIT: u32 = 100;
/// The most links on a page.
const MAX_LIMIT: u32 = 1_000;

#[derive(Serialize)]
struct LinkPage {
    data: Vec<Link>,
    next_cursor: Option<String>,
}

/// `POST /v1/links`
pub(super) async fn create(
    State(manage): State<Manage>,
    caller: Caller,
    mut params: Params,
    mut fields: Fields,
) -> Result<Response, Problem> {
    let principal = caller.with(Scope::Write)?;
    let workspace = workspace(&manage, principal, params.text("workspace"), fields.text("workspace")).await?;
    params.finish()?;
    let new = NewLink {
        workspace: workspace.unwrap_or_else(|| principal.acts_for().to_owned()),
        destination: fields.required_text("destination"),
        code: fields.text("code"),
        domain: fields.text("domain"),
        analytics: fields.word("analytics").unwrap_or(Analytics::Billed),
        title: fields.text("title"),
        tags: fields.texts("tags").unwrap_or_default(),
    };
    fields.finish()?;
    let link = manage.store.create(new, UtcMicros::now()).await?;
    let encoded = |part: &str| utf8_percent_encode(part, NON_ALPHANUMERIC).to_string();
    let location = format!("/v1/links/{}?domain={}", encoded(&link.code), encoded(&link.domain));
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(link)).into_response())
}

/// `GET /v1/links`
pub(super) async fn list(
    State(manage): State<Manage>,
    caller: Caller,
    mut params: Params,
) -> Result<Response, Problem> {
    let principal = caller.with(Scope::Read)?;
    let workspace = workspace(&manage, principal, params.text("workspace"), None).await?;
    let status = params.word::<LinkStatus>("status");
    let limit = params.text("limit").map_or(Some(DEFAULT_LIMIT), |text| text.parse().ok());
    let limit = limit.filter(|limit| (1..=MAX_LIMIT).contains(limit)).unwrap_or_else(|| {
        params.wrong("limit", &format!("must be 1 to {MAX_LIMIT}"));
        DEFAULT_LIMIT
    });
    let after = params.text("cursor").and_then(|cursor| {
        let after = from_cursor(&cursor);
        if after.is_none() {
            params.wrong("cursor", "is none that a page of links ended with");
        }
        after
    });
    params.finish()?;
    let page = manage.store.list(&ListLinks { workspace, status, after, limit }).await?;
    Ok(Json(LinkPage { data: page.links, next_cursor: page.next.map(to_cursor) }).into_response())
}

/// `GET /v1/links/{code}`
pub(super) async fn get(
    State(manage): State<Manage>,
    caller: Caller,
    Code(code): Code,
    params: Params,
) -> Result<Json<Link>, Problem> {
    let principal = caller.with(Scope::Read)?;
    let which = which(&manage, principal, code, params, None).await?;
    Ok(Json(manage.store.get(&which).await?))
}

/// `PATCH /v1/links/{code}`
pub(super) async fn patch(
    State(manage): State<Manage>,
    caller: Caller,
    Code(code): Code,
    params: Params,
    mut fields: Fields,
) -> Result<Json<Link>, Problem> {
    let principal = caller.with(Scope::Write)?;
    let which = which(&manage, principal, code, params, fields.text("workspace")).await?;
    let edit = Edit {
        destination: fields.present_text("destination"),
        analytics: fields.word("analytics"),
        title: fields.nullable_text("title"),
        tags: fields.texts("tags"),
    };
    fields.finish()?;
    Ok(Json(change(&manage, principal, which, Change::Edit(edit)).await?))
}

/// `POST /v1/links/{code}/disable`
pub(super) async fn disable(
    State(manage): State<Manage>,
    caller: Caller,
    Code(code): Code,
    params: Params,
    mut fields: Fields,
) -> Result<Json<Link>, Problem> {
    let principal = caller.with(Scope::Write)?;
    let which = which(&manage, principal, code, params, fields.text("workspace")).await?;
    let reason = fields.required_text("reason");
    fields.finish()?;
    Ok(Json(change(&manage, principal, which, Change::Disable { reason }).await?))
}

/// `POST /v1/links/{code}/enable`
pub(super) async fn enable(
    State(manage): State<Manage>,
    caller: Caller,
    Code(code): Code,
    params: Params,
    mut fields: Fields,
) -> Result<Json<Link>, Problem> {
    let principal = caller.with(Scope::Write)?;
    let which = which(&manage, principal, code, params, fields.text("workspace")).await?;
    fields.finish()?;
    Ok(Json(change(&manage, principal, which, Change::Enable).await?))
}

/// `DELETE /v1/links/{code}`
pub(super) async fn delete(
    State(manage): State<Manage>,
    caller: Caller,
    Code(code): Code,
    params: Params,
) -> Result<StatusCode, Problem> {
    let principal = caller.with(Scope::Write)?;
    let which = which(&manage, principal, code, params, None).await?;
    change(&manage, principal, which, Change::Delete).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Changes the link that a request means. An operator sees every workspace's links and acts for one of them: `default`,
/// unless the request names another. Any other's link is none then.
async fn change(manage: &Manage, principal: &Principal, which: Which, change: Change) -> Result<Link, Problem> {
    let names_none = which.workspace.is_none();
    let acts_for = which.workspace.unwrap_or_else(|| principal.acts_for().to_owned());
    let which = Which { workspace: Some(acts_for), ..which };
    manage.store.change(&which, &change, UtcMicros::now()).await.map_err(|error| match error {
        LinkError::NotFound { .. } if names_none => Problem::from(error).saying(&format!(
            " in workspace {:?}, for which an operator's token acts; ?workspace=NAME names another",
            principal.acts_for()
        )),
        error => error.into(),
    })
}

async fn which(
    manage: &Manage,
    principal: &Principal,
    code: String,
    mut params: Params,
    body_workspace: Option<String>,
) -> Result<Which, Problem> {
    let workspace = workspace(manage, principal, params.text("workspace"), body_workspace).await?;
    let domain = params.text("domain");
    params.finish()?;
    Ok(Which { workspace, domain, code })
}

/// The workspace that a request is about; `None` when an operator names none. A tenant may name its own only, and
/// learns nothing about whether another exists.
pub(super) async fn workspace(
    manage: &Manage,
    principal: &Principal,
    in_query: Option<String>,
    in_body: Option<String>,
) -> Result<Option<String>, Problem> {
    let named = match (in_query, in_body) {
        (Some(query), Some(body)) if query != body => {
            return Err(Problem::field("workspace", "the query names another than the body"));
        }
        (query, body) => query.or(body),
    };
    match (&principal.workspace, named) {
        (Some(own), Some(named)) if *own != named => {
            Err(Problem::forbidden("this token belongs to another workspace than the one named"))
        }
        (Some(own), _) => Ok(Some(own.clone())),
        (None, Some(named)) => {
            manage.store.require_workspace(&named).await?;
            Ok(Some(named))
        }
        (None, None) => Ok(None),
    }
}

/// Where a list continues, as text that says nothing to a client.
fn to_cursor(last: LinkId) -> String {
    format!("{:032x}", last.0.as_u128().rotate_left(64))
}

fn from_cursor(cursor: &str) -> Option<LinkId> {
    let fits = cursor.len() == 32 && cursor.bytes().all(|b| b.is_ascii_hexdigit());
    let bits = u128::from_str_radix(cursor, 16).ok().filter(|_| fits)?;
    Some(LinkId(uuid::Uuid::from_u128(bits.rotate_right(64))))
}
