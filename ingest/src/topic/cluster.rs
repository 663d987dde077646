//! What the cluster's controller is asked: which topic there is, who leads its partitions.

use std::sync::Arc;

use fluvio_protocol::link::ErrorCode;
use fluvio_protocol::record::ReplicaKey;
use fluvio_sc_schema::objects::{
    CommonCreateRequest, CreateRequest, ListRequest, ListResponse, Metadata, ObjectApiCreateRequest,
    ObjectApiListRequest,
};
use fluvio_sc_schema::partition::PartitionSpec;
use fluvio_sc_schema::spu::SpuSpec;
use fluvio_sc_schema::topic::{CleanupPolicy, SegmentBasedPolicy, TopicResolution, TopicSpec, TopicStorageConfig};
use fluvio_sc_schema::{AdminSpec, TryEncodableFrom};
use fluvio_socket::ClientConfig;
use fluvio_spu_schema::server::fetch_offset::{FetchOffsetsRequest, FetchOffsetsResponse};

use super::config::TopicConfig;
use super::error::TopicError;
use super::session::Session;

/// Bytes of a partition's segment: retention goes by whole segments, so that a small one keeps it close to what was asked.
const SEGMENT_BYTES: u64 = 256 << 20;

/// The cluster, as it is configured. Nothing is kept of it: each question goes through a connection of its own, so that
/// what was true once isn't believed for ever.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    pub(super) config: Arc<TopicConfig>,
}

/// Where a partition begins and ends on its broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) begin: u64,
    pub(super) end: u64,
}

const EXTENT: &str = "asking for a partition's offsets";

impl Extent {
    /// What the leader has answered of a partition.
    ///
    /// # Errors
    /// When it doesn't lead the partition, or doesn't know it.
    pub(super) fn of(answer: FetchOffsetsResponse, replica: &ReplicaKey, leader: &Session) -> Result<Self, TopicError> {
        let address = || leader.address().to_owned();
        let Some(found) = answer.find_partition(replica) else {
            let why = format!("no word of {replica}");
            return Err(TopicError::Strange { doing: EXTENT, address: address(), why });
        };
        match found.error_code {
            ErrorCode::None => Ok(Self {
                begin: found.start_offset.max(0).unsigned_abs(),
                end: found.last_stable_offset.max(0).unsigned_abs(),
            }),
            code => Err(TopicError::Refused { doing: EXTENT, address: address(), code }),
        }
    }
}

impl Cluster {
    fn client(&self) -> Result<ClientConfig, TopicError> {
        let connector = self.config.connector()?;
        Ok(ClientConfig::new(&self.config.endpoint, connector, self.config.local_addresses))
    }

    /// A connection to the controller.
    pub(super) async fn controller(&self) -> Result<Session, TopicError> {
        Session::open(self.client()?).await
    }

    /// The topic, if there is one.
    pub(super) async fn topic(&self, controller: &mut Session) -> Result<Option<Metadata<TopicSpec>>, TopicError> {
        let topics: Vec<Metadata<TopicSpec>> =
            self.list(controller, "asking for the topic", &self.config.topic).await?;
        Ok(topics.into_iter().find(|topic| topic.name == self.config.topic))
    }

    /// Makes the topic as configured. That it is there already is as good.
    pub(super) async fn create(&self, controller: &mut Session) -> Result<(), TopicError> {
        const DOING: &str = "making the topic";
        let config = &self.config;
        let mut spec = TopicSpec::new_computed(config.partitions, config.replication, None);
        let seconds = u32::try_from(config.retention.as_secs()).unwrap_or(u32::MAX);
        spec.set_cleanup_policy(CleanupPolicy::Segment(SegmentBasedPolicy { time_in_seconds: seconds }));
        let segment = SEGMENT_BYTES.min(config.partition_bytes);
        spec.set_storage(TopicStorageConfig {
            segment_size: u32::try_from(segment).ok(),
            max_partition_size: Some(config.partition_bytes),
        });
        spec.set_compression_type(config.compression.of_topic());
        let common = CommonCreateRequest { name: config.topic.clone(), ..CommonCreateRequest::default() };
        let version = controller.version_of::<ObjectApiCreateRequest>();
        let request = ObjectApiCreateRequest::try_encode_from(CreateRequest::new(common, spec), version);
        let request = request.map_err(|error| strange(controller, DOING, &error))?;
        let status = controller.ask(DOING, request).await?;
        match status.error_code {
            ErrorCode::None | ErrorCode::TopicAlreadyExists => Ok(()),
            code => Err(TopicError::Refused { doing: DOING, address: controller.address().to_owned(), code }),
        }
    }

    /// A connection to the broker that leads a partition now.
    pub(super) async fn leader(&self, partition: u32) -> Result<Session, TopicError> {
        const DOING: &str = "asking who leads a partition";
        let mut controller = self.controller().await?;
        let name = ReplicaKey::new(&self.config.topic, partition).to_string();
        let partitions: Vec<Metadata<PartitionSpec>> = self.list(&mut controller, DOING, &self.config.topic).await?;
        let Some(found) = partitions.into_iter().find(|one| one.name == name) else {
            let topic = self.topic(&mut controller).await?;
            let why = self.missing(&name, topic.map(|topic| topic.status.resolution));
            return Err(TopicError::Strange { doing: DOING, address: controller.address().to_owned(), why });
        };
        let brokers: Vec<Metadata<SpuSpec>> = self.list(&mut controller, DOING, "").await?;
        let Some(broker) = brokers.into_iter().find(|broker| broker.spec.id == found.spec.leader) else {
            let why = format!("broker {}, which leads partition {name}, is unknown", found.spec.leader);
            return Err(TopicError::Strange { doing: DOING, address: controller.address().to_owned(), why });
        };
        // brokers are names below the cluster's domain
        let mut client = self.client()?.with_prefix_sni_domain(&broker.name);
        client.set_addr(match &broker.spec.public_endpoint_local {
            Some(local) if self.config.local_addresses => format!("{}:{}", local.host, local.port),
            _ => broker.spec.public_endpoint.addr(),
        });
        Session::open(client).await
    }

    /// Why there is no partition `name`, where the topic stands like this.
    fn missing(&self, name: &str, topic: Option<TopicResolution>) -> String {
        match topic {
            Some(TopicResolution::InsufficientResources) => format!(
                "the cluster has no brokers for partition {name}: stream.fluvio.replication is {}, and no fewer must run",
                self.config.replication
            ),
            Some(TopicResolution::Init | TopicResolution::Pending) => format!("partition {name} is still being made"),
            _ => format!(
                "there is no partition {name}; if the topic was deleted for good, `highwater stream renew` begins another \
                 generation of it"
            ),
        }
    }

    /// Where a partition begins and ends, as its leader says.
    pub(super) async fn extent(&self, leader: &mut Session, partition: u32) -> Result<Extent, TopicError> {
        let replica = ReplicaKey::new(&self.config.topic, partition);
        let answer = leader.ask(EXTENT, FetchOffsetsRequest::new(replica.topic.clone(), partition)).await?;
        Extent::of(answer, &replica, leader)
    }

    /// Where a partition ends now, asked over a connection of its own.
    pub(super) async fn end(&self, partition: u32) -> Result<u64, TopicError> {
        let mut leader = self.leader(partition).await?;
        Ok(self.extent(&mut leader, partition).await?.end)
    }

    async fn list<S>(
        &self,
        controller: &mut Session,
        doing: &'static str,
        name: &str,
    ) -> Result<Vec<Metadata<S>>, TopicError>
    where
        S: AdminSpec,
        S::Status: fluvio_protocol::Encoder + fluvio_protocol::Decoder + std::fmt::Debug,
    {
        let version = controller.version_of::<ObjectApiListRequest>();
        let wanted = if name.is_empty() { Vec::new() } else { vec![name.to_owned().into()] };
        let request = ObjectApiListRequest::try_encode_from(ListRequest::<S>::new(wanted, false), version);
        let request = request.map_err(|error| strange(controller, doing, &error))?;
        let answer = controller.ask(doing, request).await?;
        let listed: Option<ListResponse<S>> = answer.downcast().map_err(|error| strange(controller, doing, &error))?;
        let nothing = || TopicError::Strange {
            doing,
            address: controller.address().to_owned(),
            why: format!("it is no list of {}", S::LABEL),
        };
        listed.map(ListResponse::inner).ok_or_else(nothing)
    }
}

fn strange(session: &Session, doing: &'static str, why: &impl std::fmt::Display) -> TopicError {
    TopicError::Strange { doing, address: session.address().to_owned(), why: format!("{why:#}") }
}
