//! Recovery from device loss: the model is loaded again onto another device, and answers in progress continue.
//! Conversations are kept as tokens; each one's cache is rebuilt from these when it is next used (`decode/rebuild.rs`).

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use futures_util::future::LocalBoxFuture;

use super::load::{compile, gpu_options, upload};
use super::{Engine, Info, LoadOptions};
use crate::base::{Cancel, Progress, now_ms, sleep};
use crate::decode::{Outcome, Timings};
use crate::error::{Error, ErrorKind, Result};
use crate::format::Checkpoint;
use crate::gpu::{Gpu, GpuOptions, Loss};
use crate::source::Files;

/// A second loss within this time is an error, ms: a device that is lost every few seconds is lost because of its work.
const INTERVAL_MS: f64 = 60_000.0;
/// Waits before each attempt to get another device, ms: a GPU process that crashed needs a moment to come back.
const TRIES_MS: [f64; 9] = [0.0, 100.0, 200.0, 400.0, 800.0, 1500.0, 2000.0, 2000.0, 3000.0];

/// An event of an engine's device.
pub enum DeviceEvent<'a> {
    /// The device was lost. `recovering`: whether another is being opened, or the engine has given up and its
    /// generations fail.
    Lost {
        /// Reason and message.
        loss: &'a Loss,
        /// Whether the engine recovers by itself.
        recovering: bool,
    },
    /// Another device has taken its place: all conversations continue.
    Restored {
        /// How long the recovery took, ms.
        ms: f64,
        /// The engine's description from now on.
        info: Box<Info>,
    },
}

/// A handle of an engine's current device, for code that does not own the engine.
#[derive(Clone)]
pub struct Device(Rc<RefCell<Weak<Gpu>>>);

impl Device {
    fn gpu(&self) -> Option<Rc<Gpu>> {
        self.0.borrow().upgrade()
    }

    /// Waits for the loss of the device; `None` where its owner destroys it first.
    pub fn lost(&self) -> impl Future<Output = Option<Loss>> + use<> {
        let lost = self.gpu().map(|gpu| gpu.lost());
        async move { lost?.await }
    }

    /// Whether `gpu` is the current device.
    pub fn is(&self, gpu: &Weak<Gpu>) -> bool {
        self.0.borrow().ptr_eq(gpu)
    }

    /// The current device, for a later [`Device::is`].
    pub fn current(&self) -> Weak<Gpu> {
        self.0.borrow().clone()
    }

    /// Destroys the device as a fault or foreign code would: for tests.
    pub fn lose(&self) {
        if let Some(gpu) = self.gpu() {
            gpu.lose();
        }
    }

    /// Has the device refuse buffers as a GPU without memory does; `None` ends that. For tests.
    #[cfg(feature = "lab")]
    pub fn refuse_buffers(&self, refuse: Option<crate::gpu::Refuse>) {
        if let Some(gpu) = self.gpu() {
            gpu.refuse_buffers(refuse);
        }
    }

    /// The number of buffers created so far, and the most bytes that were alive at one time since the last call. For
    /// tests.
    #[cfg(feature = "lab")]
    pub fn buffers(&self) -> (u64, u64) {
        self.gpu().map_or((0, 0), |gpu| (gpu.counters().snapshot().buffers, gpu.counters().take_peak()))
    }
}

/// The callback for events of an engine's device.
pub type Listener = dyn Fn(DeviceEvent<'_>);

/// The state of recovery: the model's files, the device and its health.
pub(super) struct Recovery {
    files: Files,
    device: Device,
    health: Health,
    /// When the last loss was noticed, ms.
    last: Option<f64>,
    listener: Option<Rc<Listener>>,
}

#[derive(Clone)]
enum Health {
    /// Not lost, as far as is known.
    Well,
    /// Lost, and to be replaced.
    Lost,
    /// Given up: when, and why. Not replaced for a while.
    GivenUp(f64, String),
}

impl Recovery {
    pub(super) fn new(files: &Files, gpu: &Rc<Gpu>) -> Self {
        let device = Device(Rc::new(RefCell::new(Rc::downgrade(gpu))));
        Self { files: files.clone(), device, health: Health::Well, last: None, listener: None }
    }

    fn tell(&self, event: DeviceEvent<'_>) {
        if let Some(listener) = &self.listener {
            listener(event);
        }
    }
}

/// The device losses during one piece of work.
#[derive(Default)]
pub(super) struct Losses {
    pub(super) count: u32,
    /// Time of recoveries that is not charged to an outcome yet, ms.
    pub(super) ms: f64,
}

impl Losses {
    /// Adds the time to an outcome's decoding time, if it has tokens.
    pub(super) fn charge(&mut self, outcome: &mut Outcome) {
        if !outcome.tokens.is_empty() {
            outcome.timings.decode_ms += std::mem::take(&mut self.ms);
        }
    }

    /// Adds the time to a part's prefill time and time to first token.
    pub(super) fn charged(&mut self, part: Outcome) -> Outcome {
        let ms = std::mem::take(&mut self.ms);
        let Timings { prefill_ms, ttft_ms, .. } = part.timings;
        Outcome { timings: Timings { prefill_ms: prefill_ms + ms, ttft_ms: ttft_ms + ms, ..part.timings }, ..part }
    }
}

impl Engine {
    /// A handle of the engine's current device.
    pub fn device(&self) -> Device {
        self.recovery.device.clone()
    }

    /// Sets the callback for losses and recoveries.
    pub fn on_device(&mut self, listener: Rc<Listener>) {
        self.recovery.listener = Some(listener);
    }

    /// Sets the files from which recovery uploads the weights.
    pub fn keep_files(&mut self, files: &Files) {
        self.recovery.files = files.clone();
    }

    /// Resets the time of the last loss: for tests, which would have to wait a minute.
    pub fn forget_losses(&mut self) {
        self.recovery.last = None;
        if let Health::GivenUp(since, _) = &mut self.recovery.health {
            *since = f64::NEG_INFINITY;
        }
    }

    /// The error of a lost device, if it is lost.
    pub fn lost(&self) -> Option<Error> {
        self.session.gpu().check().err().filter(|e| e.kind() == ErrorKind::DeviceLost)
    }

    /// Opens another device if this one is lost, and loads the model onto it: for idle time. Generations recover by
    /// themselves.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceLost`] where this is the second loss within a minute, or there is no other device.
    pub async fn recover(&mut self, cancel: &Cancel) -> Result<()> {
        match self.lost() {
            Some(lost) => self.survive(lost, &mut Losses::default(), &|_| (), cancel).await,
            None => Ok(()),
        }
    }

    /// Recovers if `error` comes from the loss of the device, or from a lack of memory while there is a vision encoder,
    /// which is dropped then, so that the caller can repeat its work. Returns any other error.
    pub(super) fn survive<'s>(
        &'s mut self,
        error: Error,
        losses: &'s mut Losses,
        progress: &'s dyn Fn(Progress),
        cancel: &'s Cancel,
    ) -> LocalBoxFuture<'s, Result<()>> {
        Box::pin(self.survive_it(error, losses, progress, cancel))
    }

    async fn survive_it(
        &mut self,
        error: Error,
        losses: &mut Losses,
        progress: &dyn Fn(Progress),
        cancel: &Cancel,
    ) -> Result<()> {
        let Some(loss) = self.session.gpu().loss().filter(|_| may_be_loss(&error)) else {
            if error.kind() == ErrorKind::OutOfMemory {
                self.session.go_on_without().await;
                if self.eyes.let_go() {
                    // The encoder's memory is free now.
                    self.session.lift_limit();
                    return Ok(());
                }
            }
            return Err(error);
        };
        let now = now_ms();
        let interval = self.interval_ms();
        let recent = |since: f64| now - since < interval;
        self.recovery.health = match std::mem::replace(&mut self.recovery.health, Health::Lost) {
            Health::Well if self.recovery.last.replace(now).is_some_and(recent) => {
                self.recovery.tell(DeviceEvent::Lost { loss: &loss, recovering: false });
                Health::GivenUp(now, lost_again(self.session.gpu(), &loss, interval))
            }
            Health::Well => {
                self.recovery.tell(DeviceEvent::Lost { loss: &loss, recovering: true });
                Health::Lost
            }
            Health::GivenUp(since, _) if !recent(since) => {
                self.recovery.last = Some(now);
                self.recovery.tell(DeviceEvent::Lost { loss: &loss, recovering: true });
                Health::Lost
            }
            // The loss is known already; a cancelled recovery is tried again.
            health => health,
        };
        if let Health::GivenUp(_, why) = &self.recovery.health {
            return Err(Error::new(ErrorKind::DeviceLost, why.clone()));
        }
        match self.replace_device(progress, cancel).await {
            Ok(()) => {
                let ms = now_ms() - now;
                losses.count += 1;
                losses.ms += ms;
                self.recovery.health = Health::Well;
                self.recovery.tell(DeviceEvent::Restored { ms, info: Box::new(self.info()) });
                Ok(())
            }
            Err(e) if e.kind() == ErrorKind::Aborted => Err(e),
            Err(e) => {
                let message = format!(
                    "{} was lost ({loss}) and the model could not be loaded onto another: {e}; load the model again",
                    self.session.gpu().noun()
                );
                self.recovery.health = Health::GivenUp(now_ms(), message.clone());
                self.recovery.tell(DeviceEvent::Lost { loss: &loss, recovering: false });
                Err(Error::new(ErrorKind::DeviceLost, message).with_source(e))
            }
        }
    }

    /// How soon after a loss another is an error, in ms.
    fn interval_ms(&self) -> f64 {
        #[cfg(feature = "lab")]
        if let Some(planted) = self.options.faults.loss_interval_ms {
            return planted;
        }
        INTERVAL_MS
    }

    /// Does `work`, again on another device each time that one is lost meanwhile. Any other error comes back.
    pub(super) async fn surviving<T>(
        &mut self,
        progress: &dyn Fn(Progress),
        cancel: &Cancel,
        mut work: impl AsyncFnMut(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let mut losses = Losses::default();
        loop {
            match work(self).await {
                Err(e) => self.survive(e, &mut losses, progress, cancel).await?,
                done => return done,
            }
        }
    }

    /// Loads the model onto another device, with the same kernels where that device is equal, and hands the
    /// conversations over.
    async fn replace_device(&mut self, progress: &dyn Fn(Progress), cancel: &Cancel) -> Result<()> {
        self.recovery.files.values().for_each(|file| file.will_be_read());
        let gpu = Rc::new(open_again(&self.options, Some(self.session.gpu()), cancel).await?);
        let checkpoint = Checkpoint::open(&self.recovery.files).await?;
        if checkpoint.fingerprint().await? != self.fingerprint {
            return Err(Error::storage("the model's files have changed since they were loaded"));
        }
        cancel.check()?;
        let mut tuning = self.options.tuning.clone();
        self.remember(&mut tuning);
        let options = LoadOptions { tuning, ..self.options.clone() };
        // Self-test and measurements of one device do not hold for a different one.
        let (old, new) = (self.session.gpu().caps(), gpu.caps());
        let same = (&old.name, &old.features, old.subgroup, old.native_halves)
            == (&new.name, &new.features, new.subgroup, new.native_halves);
        let decided = same.then(|| self.session.decided());
        let (mut session, self_test) =
            compile(&checkpoint, &options, Some(self.tokenizer.vocab_size()), gpu, decided, progress).await?;
        upload(&checkpoint, &session, progress, cancel).await?;
        session.gpu().check()?;
        session.set_adapters(&self.fitted_adapters()).await?;
        self.draft_again(&mut session, progress, cancel).await?;
        let lost = std::mem::replace(&mut self.session, session);
        self.session.take_over(lost)?;
        if !same {
            self.self_test = self_test;
        }
        *self.recovery.device.0.borrow_mut() = Rc::downgrade(self.session.gpu());
        Ok(())
    }
}

fn lost_again(gpu: &Gpu, loss: &Loss, interval_ms: f64) -> String {
    let advice = match gpu.is_cpu() {
        true => "other tabs and programs, or use a smaller model or context",
        false => {
            "other tabs and programs that use the GPU, use a smaller model or context, or update the graphics driver"
        }
    };
    format!(
        "{} was lost twice within {:.0} s ({loss}), so the engine does not go on by itself; load the model again, and if that does not help close {advice}",
        gpu.noun(),
        interval_ms / 1000.0
    )
}

/// Whether an error may be due to the loss of the device.
pub(super) fn may_be_loss(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::DeviceLost | ErrorKind::Gpu | ErrorKind::OutOfMemory | ErrorKind::Internal)
}

/// Opens a device in the place of `lost`.
pub(super) async fn open_again(options: &LoadOptions, lost: Option<&Rc<Gpu>>, cancel: &Cancel) -> Result<Gpu> {
    let helpers = !lost.is_some_and(|gpu| gpu.failed_with_helpers());
    let options = GpuOptions { helpers, ..gpu_options(options) };
    let mut failure = Error::new(ErrorKind::NoAdapter, "no GPU");
    for wait in TRIES_MS {
        sleep(wait).await;
        cancel.check()?;
        match Gpu::open(&options).await {
            Ok(gpu) => return Ok(gpu),
            // A device that is lost at once is one of the crashed process.
            Err(e) if matches!(e.kind(), ErrorKind::NoAdapter | ErrorKind::DeviceLost | ErrorKind::Gpu) => failure = e,
            Err(e) => return Err(e),
        }
    }
    Err(failure)
}
