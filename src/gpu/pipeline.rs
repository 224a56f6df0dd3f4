//! Buffers, pipelines and bind groups: made before the first token, never during a decode step.

use std::fmt::Display;
use std::rc::Rc;

use super::commands::{ComputePass, Encoder, Raw, Submission};
use super::counters::Counters;
use super::device::{Gpu, On};
use super::processor::Program;
use crate::error::{Error, Result};
use crate::kernels::{Binding, BindingKind, Variant};
use millrace_twins::op;

/// A GPU buffer whose bytes are counted while it lives.
#[derive(Clone)]
pub struct Buffer(Rc<Owned>);

struct Owned {
    raw: Raw,
    counters: Rc<Counters>,
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.counters.freed(self.raw.size());
        // Freed now, not when the garbage collector finds the handle: weights are gigabytes.
        if let Raw::Gpu(raw) = &self.raw {
            raw.destroy();
        }
    }
}

impl Buffer {
    /// The buffer itself.
    pub fn raw(&self) -> &Raw {
        &self.0.raw
    }
    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        self.0.raw.size()
    }
}

/// A dispatch's pipeline and bind group, ready to record as often as needed.
pub struct Bound {
    made: Made,
    // Keeps the buffers alive as long as the bind group.
    _buffers: Vec<Buffer>,
}

enum Made {
    Gpu(wgpu::ComputePipeline, wgpu::BindGroup),
    Cpu(Program),
    /// A kernel that computes nothing: for tests.
    #[cfg(feature = "lab")]
    Broken,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PipelineKey {
    kernel: &'static str,
    variant: &'static str,
    /// (name, bits of the value)
    overrides: Vec<(&'static str, u64)>,
}

impl PipelineKey {
    pub(super) fn new(variant: &Variant, overrides: &[(&'static str, f64)]) -> Self {
        let mut overrides: Vec<_> = overrides.iter().map(|(name, value)| (*name, value.to_bits())).collect();
        overrides.sort_unstable();
        Self { kernel: variant.kernel, variant: variant.name, overrides }
    }
}

/// A compiled pipeline, and the layout of its bind groups.
pub(super) type Compiled = (wgpu::ComputePipeline, wgpu::BindGroupLayout);

/// The input of a pipeline's compilation.
pub(super) struct Recipe {
    variant: &'static Variant,
    overrides: Vec<(&'static str, f64)>,
    /// WGSL.
    source: String,
}

/// The device's objects of a recipe before compilation.
pub(super) struct Parts<'a> {
    recipe: &'a Recipe,
    label: String,
    layout: wgpu::BindGroupLayout,
    pipeline_layout: wgpu::PipelineLayout,
    module: wgpu::ShaderModule,
}

impl Recipe {
    /// The shader's module and the layouts of its bindings.
    pub(super) fn parts(&self, device: &wgpu::Device) -> Parts<'_> {
        let label = format!("{}/{}", self.variant.kernel, self.variant.name);
        let entry = |binding: &Binding| wgpu::BindGroupLayoutEntry {
            binding: binding.slot,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: match binding.kind {
                    BindingKind::Uniform => wgpu::BufferBindingType::Uniform,
                    BindingKind::Read => wgpu::BufferBindingType::Storage { read_only: true },
                    BindingKind::ReadWrite => wgpu::BufferBindingType::Storage { read_only: false },
                },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        };
        let entries: Vec<_> = self.variant.bindings.iter().map(entry).collect();
        let layout = device
            .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: Some(&label), entries: &entries });
        let layouts = wgpu::PipelineLayoutDescriptor {
            label: Some(&label),
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        };
        let pipeline_layout = device.create_pipeline_layout(&layouts);
        let described = wgpu::ShaderModuleDescriptor {
            label: Some(&label),
            source: wgpu::ShaderSource::Wgsl(self.source.as_str().into()),
        };
        // Natively wgpu bounds every loop by a 64-bit counter of its iterations: a quarter of a software GPU's time.
        let checks = wgpu::ShaderRuntimeChecks { force_loop_bounding: false, ..wgpu::ShaderRuntimeChecks::checked() };
        // SAFETY: the shaders are those of shaders/, and each of their loops ends. Indices stay checked.
        let module = unsafe { device.create_shader_module_trusted(described, checks) };
        Parts { recipe: self, label, layout, pipeline_layout, module }
    }
}

impl Parts<'_> {
    /// Compiles the pipeline, and returns it with the layout of its bind groups.
    pub(super) fn pipeline(&self, device: &wgpu::Device) -> Compiled {
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(&self.label),
            layout: Some(&self.pipeline_layout),
            module: &self.module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions {
                constants: &self.recipe.overrides,
                ..Default::default()
            },
            cache: None,
        });
        (pipeline, self.layout.clone())
    }
}

impl Gpu {
    /// A buffer of at least `bytes` bytes, zeroed. Fails where the device cannot hold one that large.
    pub fn buffer(&self, label: &str, bytes: u64, usage: wgpu::BufferUsages) -> Result<Buffer> {
        let size = self.check_size(&label, bytes)?;
        // A buffer of usages that exclude each other is as invalid as one that the GPU has no memory for.
        #[cfg(feature = "lab")]
        let usage = if self.refuses(label, size)? {
            wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::MAP_WRITE
        } else {
            usage
        };
        let raw = match &self.on {
            On::Gpu(device, _) => Raw::Gpu(device.create_buffer(&wgpu::BufferDescriptor {
                label: Some(label),
                size,
                usage,
                mapped_at_creation: false,
            })),
            On::Cpu(processor) => Raw::Cpu(processor.memory(label, size)?),
        };
        self.counters().allocated(size);
        Ok(Buffer(Rc::new(Owned { raw, counters: self.counters().clone() })))
    }

    /// The size of a buffer of at least `bytes` bytes. Fails where the device cannot hold one that large.
    pub fn check_size(&self, label: &dyn Display, bytes: u64) -> Result<u64> {
        let (size, most) = (bytes.next_multiple_of(16).max(16), self.caps().max_buffer);
        if size > most {
            return Err(Error::out_of_memory(format!(
                "buffer {label} needs {size} bytes, the GPU allows {most} in one buffer"
            )));
        }
        Ok(size)
    }

    /// A small buffer with contents.
    pub fn buffer_with(&self, label: &str, contents: &[u8], usage: wgpu::BufferUsages) -> Result<Buffer> {
        // Not mapped at creation: on a device that was lost meanwhile that throws where it cannot be caught.
        let size = contents.len().next_multiple_of(4).max(4);
        let usage = usage | wgpu::BufferUsages::COPY_DST;
        let size = size as u64;
        let raw = match &self.on {
            On::Gpu(device, _) => Raw::Gpu(device.create_buffer(&wgpu::BufferDescriptor {
                label: Some(label),
                size,
                usage,
                mapped_at_creation: false,
            })),
            On::Cpu(processor) => Raw::Cpu(processor.memory(label, size)?),
        };
        self.counters().allocated(size);
        let buffer = Buffer(Rc::new(Owned { raw, counters: self.counters().clone() }));
        if contents.len() as u64 == size {
            self.write(&buffer, 0, contents);
        } else {
            self.write(&buffer, 0, &[contents, &[0; 4][..size as usize - contents.len()]].concat());
        }
        Ok(buffer)
    }

    /// Compiles (once) the variant with these overrides and binds the buffers, given by the names in the shader.
    pub fn bind(
        &self,
        label: &str,
        variant: &'static Variant,
        overrides: &[(&'static str, f64)],
        buffers: &[(&'static str, Buffer)],
    ) -> Result<Bound> {
        let mut ordered = Vec::with_capacity(variant.bindings.len());
        for binding in variant.bindings {
            let (_, buffer) = buffers.iter().find(|(name, _)| *name == binding.name).ok_or_else(|| {
                Error::internal(format!(
                    "{label}: kernel {}/{} has no buffer for {}",
                    variant.kernel, variant.name, binding.name
                ))
            })?;
            let most = self.caps().binding_limit;
            if buffer.bytes() > most && binding.kind != BindingKind::Uniform {
                return Err(Error::out_of_memory(format!(
                    "{label}: {} has {} bytes, the GPU binds at most {most}",
                    binding.name,
                    buffer.bytes()
                )));
            }
            ordered.push((binding.slot, buffer));
        }
        if let Some((name, _)) = buffers.iter().find(|(name, _)| variant.bindings.iter().all(|b| b.name != *name)) {
            return Err(Error::internal(format!(
                "{label}: kernel {}/{} has no binding named {name}",
                variant.kernel, variant.name
            )));
        }
        let made = match &self.on {
            On::Gpu(device, _) => {
                let (pipeline, layout) = self.pipeline(device, variant, overrides)?;
                let entries: Vec<_> = ordered
                    .into_iter()
                    .filter_map(|(binding, buffer)| {
                        buffer
                            .raw()
                            .gpu()
                            .map(|raw| wgpu::BindGroupEntry { binding, resource: raw.as_entire_binding() })
                    })
                    .collect();
                Made::Gpu(
                    pipeline,
                    device.create_bind_group(&wgpu::BindGroupDescriptor {
                        label: Some(label),
                        layout: &layout,
                        entries: &entries,
                    }),
                )
            }
            #[cfg(feature = "lab")]
            On::Cpu(_) if self.is_broken(variant) => Made::Broken,
            On::Cpu(processor) => {
                self.can_run(variant, overrides)?;
                Made::Cpu(processor.bind(variant, overrides, buffers)?)
            }
        };
        self.counters().bind_group();
        Ok(Bound { made, _buffers: buffers.iter().map(|(_, b)| b.clone()).collect() })
    }

    /// Whether the variant shall compute nothing: for tests.
    #[cfg(feature = "lab")]
    fn is_broken(&self, variant: &Variant) -> bool {
        self.broken.iter().any(|(kernel, name)| *kernel == variant.kernel && *name == variant.name)
    }

    /// An error where the device cannot run the variant, or the overrides are wrong.
    fn can_run(&self, variant: &Variant, overrides: &[(&'static str, f64)]) -> Result<()> {
        variant.check_overrides(overrides)?;
        match variant.lacks(self.caps()) {
            Some(missing) => Err(Error::unknown_kernel(format!(
                "kernel {variant} needs {missing}, which this GPU does not offer here"
            ))),
            None => Ok(()),
        }
    }

    fn pipeline(
        &self,
        device: &wgpu::Device,
        variant: &'static Variant,
        overrides: &[(&'static str, f64)],
    ) -> Result<Compiled> {
        self.can_run(variant, overrides)?;
        let key = PipelineKey::new(variant, overrides);
        if let Some(made) = self.pipelines.borrow().get(&key) {
            return Ok(made.clone());
        }
        let recipe = self.recipe(variant, overrides)?;
        Ok(self.shared(&key, &recipe).unwrap_or_else(|| self.keep(key, &recipe, recipe.parts(device).pipeline(device))))
    }

    /// The recipe of a pipeline of the variant.
    pub(super) fn recipe(&self, variant: &'static Variant, overrides: &[(&'static str, f64)]) -> Result<Recipe> {
        self.can_run(variant, overrides)?;
        let source =
            variant.render(cfg!(target_arch = "wasm32"), self.caps().native_halves, self.caps().emulates(variant))?;
        #[cfg(feature = "lab")]
        let source = match self.is_broken(variant) {
            true => source.replacen("if (state.done != 0u", "if (true || state.done != 0u", 1),
            false => source,
        };
        Ok(Recipe { variant, overrides: overrides.to_vec(), source })
    }

    /// The pipeline that an earlier load on this device has compiled of an equal recipe.
    pub(super) fn shared(&self, key: &PipelineKey, recipe: &Recipe) -> Option<Compiled> {
        let made = self.share.find(key, &recipe.source)?;
        self.counters().pipeline();
        self.pipelines.borrow_mut().insert(key.clone(), made.clone());
        Some(made)
    }

    /// Keeps the compiled pipeline of a recipe.
    pub(super) fn keep(&self, key: PipelineKey, recipe: &Recipe, made: Compiled) -> Compiled {
        self.share.add(&key, &recipe.source, made.clone());
        self.counters().pipeline();
        self.pipelines.borrow_mut().insert(key, made.clone());
        made
    }

    /// Drops the cached pipelines of a variant; bound dispatches keep theirs.
    pub fn forget(&self, variant: &Variant) {
        self.pipelines.borrow_mut().retain(|key, _| key.kernel != variant.kernel || key.variant != variant.name);
    }

    /// An encoder, into which passes and copies are recorded.
    pub fn encoder(&self, label: &str) -> Encoder {
        match &self.on {
            On::Gpu(device, _) => {
                Encoder::Gpu(device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some(label) }))
            }
            On::Cpu(processor) => Encoder::Cpu(processor.clone(), Vec::new()),
        }
    }

    /// Records one dispatch.
    pub fn dispatch(&self, pass: &mut ComputePass<'_>, bound: &Bound, grid: [u32; 3]) {
        match (pass, &bound.made) {
            (ComputePass::Gpu(pass), Made::Gpu(pipeline, bind_group)) => {
                pass.set_pipeline(pipeline);
                pass.set_bind_group(0, bind_group, &[]);
                pass.dispatch_workgroups(grid[0], grid[1], grid[2]);
            }
            (ComputePass::Cpu(commands), Made::Cpu(program)) => {
                commands.extend([op::DISPATCH, program.id, grid[0], grid[1], grid[2]])
            }
            _ => {}
        }
        self.counters().dispatch(1);
    }

    /// Submits what `encoder` recorded.
    pub fn submit(&self, encoder: Encoder) -> Submission {
        self.counters().submit();
        match (encoder, &self.on) {
            (Encoder::Gpu(encoder), On::Gpu(_, queue)) => Submission::Gpu(queue.submit([encoder.finish()])),
            (Encoder::Cpu(processor, commands), _) => Submission::Cpu(processor.submit(commands)),
            // Commands are submitted to the device that they were recorded for.
            (Encoder::Gpu(_), On::Cpu(processor)) => Submission::Cpu(processor.last()),
        }
    }

    /// One dispatch on its own; see [`Gpu::run_all`].
    pub async fn run_once(
        &self,
        variant: &'static Variant,
        overrides: &[(&'static str, f64)],
        buffers: &mut [(&'static str, Vec<u32>)],
        grid: [u32; 3],
    ) -> Result<()> {
        self.run_all(&mut [Trial { variant, overrides, buffers, grid }]).await
    }

    /// Runs independent dispatches: uploads their buffers, runs them in one submission, reads every writable buffer
    /// back. For tests of kernels, not for inference. A refusal of the GPU's is an error of this call alone, not of
    /// later calls on the device.
    pub async fn run_all(&self, trials: &mut [Trial<'_>]) -> Result<()> {
        let usage = wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::UNIFORM
            | wgpu::BufferUsages::COPY_SRC
            | wgpu::BufferUsages::COPY_DST;
        self.compile_ahead(trials.iter().map(|trial| (trial.variant, trial.overrides))).await;
        let scope = self.wgpu().ok().map(|(device, _)| device.push_error_scope(wgpu::ErrorFilter::Validation));
        let mut encoder = self.encoder("trials");
        // (trial, buffer, source of the copy)
        let mut outputs = Vec::new();
        // Buffers are destroyed when they are dropped: not before the submission.
        let mut alive = Vec::new();
        for (t, trial) in trials.iter().enumerate() {
            let made: Vec<_> = trial
                .buffers
                .iter()
                .map(|(name, words)| Ok((*name, self.buffer_with(name, bytemuck::cast_slice(words), usage)?)))
                .collect::<Result<_>>()?;
            let bound = self.bind(trial.variant.kernel, trial.variant, trial.overrides, &made)?;
            {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                self.dispatch(&mut pass, &bound, trial.grid);
            }
            let written = made
                .into_iter()
                .enumerate()
                .filter(|(_, (name, _))| trial.variant.binding(name).is_some_and(|b| b.kind == BindingKind::ReadWrite));
            outputs.extend(written.map(|(b, (_, buffer))| (t, b, buffer)));
            alive.push(bound);
        }
        let total = outputs.iter().map(|(_, _, buffer)| buffer.bytes()).sum();
        let staging =
            self.buffer("trials.readback", total, wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST)?;
        let mut at = 0;
        for (_, _, buffer) in &outputs {
            encoder.copy_buffer_to_buffer(buffer.raw(), 0, staging.raw(), at, buffer.bytes());
            at += buffer.bytes();
        }
        let submission = self.submit(encoder);
        drop(alive);
        if let Some(scope) = scope
            && let Some(error) = scope.pop().await
        {
            let names: Vec<String> = trials.iter().map(|t| t.variant.to_string()).collect();
            return Err(Error::gpu(format!("the GPU refused {}: {error}", names.join(", "))));
        }
        let pending = self.map(&staging, total, submission);
        let bytes = self.take(&staging, total, pending).await?;
        let mut at = 0;
        for (trial, b, buffer) in &outputs {
            let words = &mut trials[*trial].buffers[*b].1;
            let length = words.len() * 4;
            words.copy_from_slice(bytemuck::cast_slice(&bytes[at..at + length]));
            at += buffer.bytes() as usize;
        }
        self.check()
    }
}

/// One dispatch of [`Gpu::run_all`].
pub struct Trial<'a> {
    /// The kernel.
    pub variant: &'static Variant,
    /// The kernel's constants.
    pub overrides: &'a [(&'static str, f64)],
    /// Binding name -> words; afterwards with what the kernel has written.
    pub buffers: &'a mut [(&'static str, Vec<u32>)],
    /// Workgroups.
    pub grid: [u32; 3],
}
