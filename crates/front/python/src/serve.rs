//! `nandlab serve`: a device for real clients. The server has threads of its own; Python looks at it.

use crate::boundary::interruptible;
use crate::failed;
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::json;
use serve::{Address, CoreOptions, CutAfter, Pace, Server, ServerOptions};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Options of the call, as JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Without: the device of the image.
    device: Option<String>,
    changes: BTreeMap<String, String>,
    ftl: Option<String>,
    capacity_bytes: Option<u64>,
    precondition: String,
    seed: u64,
    cut_after: Option<CutAfter>,
    exports: Vec<String>,
    listen: Vec<String>,
    control: Option<PathBuf>,
    metrics: Option<String>,
    /// A second of the device takes so many of the host; without: none.
    real_factor: Option<u32>,
    is_open: bool,
    log: Option<PathBuf>,
    image: Option<PathBuf>,
    bytes_in: Option<PathBuf>,
}

impl Arguments {
    fn options(self) -> PyResult<ServerOptions> {
        let listen: Result<Vec<Address>, String> =
            self.listen.iter().map(|text| text.parse()).collect();
        let metrics = self.metrics.as_deref().map(str::parse).transpose();
        let metrics = metrics.map_err(|told: String| failed(format!("--metrics: {told}")))?;
        Ok(ServerOptions {
            listen: listen.map_err(|told| failed(format!("--listen: {told}")))?,
            core: self.core()?,
            exports: self.exports,
            control: self.control,
            metrics,
            pace: self.real_factor.map_or(Pace::None, Pace::Real),
            is_open: self.is_open,
            log: self.log,
            image: self.image,
        })
    }

    fn device_of_image(&self) -> PyResult<device::DeviceSpec> {
        let Some(path) = &self.image else {
            return Err(failed("--device is missing: name a device of `nandlab list devices`"));
        };
        let options = serve::image_options(path).map_err(failed)?;
        options.map(|options| options.device).ok_or_else(|| {
            failed(format!(
                "{} does not exist: name the --device that a new image is to hold",
                path.display()
            ))
        })
    }

    fn core(&self) -> PyResult<CoreOptions> {
        let mut device = match &self.device {
            Some(name) => device::find_or_load(name).map_err(failed)?,
            None => self.device_of_image()?,
        };
        for (key, value) in &self.changes {
            device.set(key, value).map_err(failed)?;
        }
        if let Some(ftl) = &self.ftl {
            device = device_replay::with_ftl(&device, ftl, &self.changes).map_err(failed)?;
        }
        if let Some(capacity_bytes) = self.capacity_bytes {
            device.set_capacity(capacity_bytes).map_err(failed)?;
        }
        let precondition =
            device::Preconditioning::from_name(&self.precondition).ok_or_else(|| {
                failed(format!(
                    "--precondition: `{}` is none of none, fill, random:PERCENT (1 to 1000) and steady",
                    self.precondition
                ))
            })?;
        Ok(CoreOptions {
            device,
            precondition: precondition.steps(self.seed),
            seed: self.seed,
            cut_after: self.cut_after,
            bytes_in: self.bytes_in.clone(),
        })
    }
}

/// A server at work. It stops when it is dropped.
#[pyclass(frozen)]
pub(crate) struct RunningServer {
    server: std::sync::Mutex<Option<Server>>,
}

impl RunningServer {
    fn with<T>(&self, python: Python<'_>, call: impl FnOnce(&Server) -> T + Send) -> PyResult<T>
    where
        T: Send,
    {
        python.detach(|| {
            let server = self.server.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            server.as_ref().map(call).ok_or_else(|| failed("the server has stopped"))
        })
    }
}

fn told(value: impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(&value).map_err(failed)
}

#[pymethods]
impl RunningServer {
    /// Where clients connect, as `unix:PATH` or `tcp:ADDRESS:PORT`.
    fn addresses(&self, python: Python<'_>) -> PyResult<Vec<String>> {
        self.with(python, |server| server.addresses().iter().map(ToString::to_string).collect())
    }

    /// Where Prometheus reads, if it may.
    fn metrics_address(&self, python: Python<'_>) -> PyResult<Option<String>> {
        self.with(python, |server| server.metrics_address().map(ToString::to_string))
    }

    fn status(&self, python: Python<'_>) -> PyResult<String> {
        told(self.with(python, Server::status)?)
    }

    fn statistics(&self, python: Python<'_>) -> PyResult<String> {
        told(self.with(python, Server::statistics)?)
    }

    fn cut(&self, python: Python<'_>) -> PyResult<()> {
        self.with(python, Server::cut)
    }

    fn restore(&self, python: Python<'_>) -> PyResult<String> {
        let recovery = self.with(python, Server::restore)?.map_err(failed)?;
        told(json!({
            "ready_ns": recovery.ready_ns,
            "reads": recovery.reads,
            "changes": recovery.changes,
        }))
    }

    fn is_stopping(&self, python: Python<'_>) -> PyResult<bool> {
        self.with(python, Server::is_stopping)
    }

    /// Ends all connections; returns the digest of the chips, and what kept the server from going on.
    fn stop(&self, python: Python<'_>) -> PyResult<(String, Option<String>)> {
        python.detach(|| {
            let mut server = self.server.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let server = server.take().ok_or_else(|| failed("the server has stopped"))?;
            Ok(server.stop())
        })
    }
}

/// Makes the device and begins to listen.
#[pyfunction]
fn start_server(python: Python<'_>, arguments_json: &str) -> PyResult<RunningServer> {
    let given: Arguments = serde_json::from_str(arguments_json).map_err(failed)?;
    let options = given.options()?;
    let server = interruptible(python, move || Server::start(&options).map_err(failed))?;
    Ok(RunningServer { server: std::sync::Mutex::new(Some(server)) })
}

/// Carries the log of a server out again.
#[pyfunction]
fn replay_server_log(python: Python<'_>, path: PathBuf) -> PyResult<String> {
    let report = interruptible(python, move || {
        serve::replay_log(&path).map(|(_, report)| report).map_err(failed)
    })?;
    told(report)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<RunningServer>()?;
    module.add_function(wrap_pyfunction!(start_server, module)?)?;
    module.add_function(wrap_pyfunction!(replay_server_log, module)?)
}
