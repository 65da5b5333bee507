//! A directory that answers over gRPC with tonic whether services are up, and asks another directory when it does not know. Commands on both
//! sides keep tonic's own error: what is refused is a `Status` with the code that gRPC has for it.

mod support;

use std::collections::HashMap;

use hystrix_core::{CommandConfig, Force, Registry, Rejection, Select, command, command_of, commands};
use tokio::net::TcpListener;
use tonic::codegen::BoxStream;
use tonic::codegen::tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use support::counts;

// ===== the service =====

/// A refusal as a status. The library knows gRPC's numbers, and not tonic.
fn refused(rejection: Rejection) -> Status {
    let code = i32::try_from(rejection.grpc_code()).unwrap_or_default();
    Status::new(Code::from_i32(code), rejection.to_string())
}

/// Asks another directory. That it has never heard of a service is an answer.
#[command(
    group = "directory",
    semaphore = 8,
    timeout = "20s",
    rejected = refused,
    ignore = |status| status.code() == Code::NotFound
)]
async fn ask(directory: &Channel, service: &str) -> Result<ServingStatus, Status> {
    let mut client = HealthClient::new(directory.clone());
    let answer = client.check(HealthCheckRequest { service: service.into() }).await?;
    Ok(answer.into_inner().status())
}

struct Directory {
    known: HashMap<&'static str, ServingStatus>,
    parent: Option<Channel>,
}

fn answer(status: ServingStatus) -> Response<HealthCheckResponse> {
    Response::new(HealthCheckResponse { status: status.into() })
}

#[commands(group = "directory_server", rejected = refused, ignore = |status| status.code() == Code::NotFound)]
#[tonic::async_trait]
impl Health for Directory {
    type WatchStream = BoxStream<HealthCheckResponse>;

    #[command(key = "check", semaphore = 4, timeout = "30s")]
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let service = &*request.get_ref().service;
        match (self.known.get(service), &self.parent) {
            (Some(status), _) => Ok(answer(*status)),
            (None, Some(parent)) => Ok(answer(ask(parent, service).await?)),
            (None, None) if service == "silence" => std::future::pending().await,
            (None, None) => Err(Status::not_found(service)),
        }
    }

    #[command(key = "watch", timeout = None)]
    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented(request.into_inner().service))
    }
}

// ===== the test =====

async fn serve(directory: Directory) -> Channel {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder().add_service(HealthServer::new(directory));
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    Endpoint::from_shared(format!("http://{address}")).unwrap().connect_lazy()
}

#[tokio::test]
async fn a_refusal_is_a_status_with_the_code_for_it() {
    let registry = Registry::global();
    let up = HashMap::from([("mail", ServingStatus::Serving), ("news", ServingStatus::NotServing)]);
    let parent = serve(Directory { known: up, parent: None }).await;
    let known = HashMap::from([("shop", ServingStatus::Serving)]);
    let mut client = HealthClient::new(serve(Directory { known, parent: Some(parent) }).await);
    let mut check = async |service: &str| {
        let request = HealthCheckRequest { service: service.into() };
        client.check(request).await.map(|answer| answer.into_inner().status()).map_err(|status| status.code())
    };
    let asked = command_of!(ask);

    assert_eq!(check("shop").await, Ok(ServingStatus::Serving));
    assert_eq!(check("mail").await, Ok(ServingStatus::Serving));
    assert_eq!(check("news").await, Ok(ServingStatus::NotServing));
    assert_eq!(check("nonsense").await, Err(Code::NotFound));
    assert_eq!(counts(&asked), "ok=2 bad_request=1");

    registry.apply(Select::command("directory", "ask"), CommandConfig::new().timeout("50ms")).unwrap();
    assert_eq!(check("silence").await, Err(Code::DeadlineExceeded));

    asked.force_open();
    assert_eq!(check("mail").await, Err(Code::Unavailable));
    asked.clear_forced();

    let served = registry.find("directory_server", "check").unwrap();
    served.force(Force::Rejected);
    assert_eq!(check("shop").await, Err(Code::ResourceExhausted));
    served.force(None);
    assert_eq!(check("shop").await, Ok(ServingStatus::Serving));
    assert_eq!(counts(&asked), "ok=2 timeout=1 bad_request=1 short_circuited=1 fallback_missing=2");
}
