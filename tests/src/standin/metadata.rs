//! What the controller says there is.

use fluvio_sc_schema::objects::Metadata;
use fluvio_sc_schema::partition::{PartitionResolution, PartitionSpec, PartitionStatus};
use fluvio_sc_schema::spu::SpuSpec;
use fluvio_sc_schema::topic::{TopicResolution, TopicSpec, TopicStatus};

use super::broker::{Broker, SPUS};

/// All topics.
pub(super) fn topics(broker: &Broker) -> Vec<Metadata<TopicSpec>> {
    let topics = broker.store.topics().into_iter().map(|(name, topic)| {
        let replicas = topic.partitions.iter().map(|one| (one.key.partition, vec![one.now.borrow().named]));
        let replica_map = replicas.collect();
        let resolution = match topic.partitions.is_empty() {
            true => TopicResolution::InsufficientResources,
            false => TopicResolution::Provisioned,
        };
        let status = TopicStatus { resolution, replica_map, ..Default::default() };
        Metadata { name, spec: topic.spec, status }
    });
    topics.collect()
}

/// All partitions, with their offsets.
pub(super) fn partitions(broker: &Broker) -> Vec<Metadata<PartitionSpec>> {
    let topics = broker.store.topics();
    let partitions = topics.values().flat_map(|topic| topic.partitions.iter().map(|one| (&topic.spec, one)));
    let partitions = partitions.map(|(spec, partition)| {
        let named = partition.now.borrow().named;
        let (start, end, bytes) = partition.extent();
        let size = i64::try_from(bytes).unwrap_or(i64::MAX);
        Metadata {
            name: partition.key.to_string(),
            spec: PartitionSpec::from_replicas(vec![named], spec, None),
            status: PartitionStatus::new2((named, end, end), vec![], size, PartitionResolution::Online, start),
        }
    });
    partitions.collect()
}

/// Both SPUs.
pub(super) fn spus(broker: &Broker) -> Vec<Metadata<SpuSpec>> {
    let spus = SPUS.into_iter().zip(broker.data_ports).map(|(id, port)| {
        let spec = SpuSpec::new_public_addr(id, port, "127.0.0.1".to_owned()).set_custom();
        let mut spu = Metadata { name: format!("custom-spu-{id}"), spec, status: Default::default() };
        spu.status.set_online();
        spu
    });
    spus.collect()
}
