//! Timestamps of the GPU's own clock.

use super::commands::{Encoder, Raw};
use super::device::Gpu;
use super::pipeline::Buffer;
use crate::error::Result;

/// A query set for the timestamps of compute passes.
pub struct Timeline {
    /// The query set, for a pass's `timestamp_writes`.
    pub queries: wgpu::QuerySet,
    moments: u32,
    resolved: Buffer,
}

impl Gpu {
    /// A timeline of `moments` timestamps, for devices with `timestamp-query`. A browser may round timestamps to 100
    /// us.
    pub fn timeline(&self, moments: u32) -> Result<Timeline> {
        let queries = self.wgpu()?.0.create_query_set(&wgpu::QuerySetDescriptor {
            label: Some("timeline"),
            ty: wgpu::QueryType::Timestamp,
            count: moments,
        });
        let resolved = self.buffer(
            "timeline",
            u64::from(moments) * 8,
            wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC,
        )?;
        Ok(Timeline { queries, moments, resolved })
    }

    /// All timestamps, in milliseconds, once everything submitted has run.
    pub async fn times(&self, timeline: &Timeline) -> Result<Vec<f64>> {
        let mut encoder = self.encoder("timeline");
        if let (Encoder::Gpu(encoder), Raw::Gpu(resolved)) = (&mut encoder, timeline.resolved.raw()) {
            encoder.resolve_query_set(&timeline.queries, 0..timeline.moments, resolved, 0);
        }
        self.submit(encoder);
        let bytes = self.read(&timeline.resolved, 0, u64::from(timeline.moments) * 8).await?;
        let period_ms = f64::from(self.wgpu()?.1.get_timestamp_period()) / 1e6;
        Ok(bytes.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b) as f64 * period_ms).collect())
    }
}
