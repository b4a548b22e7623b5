// QEMU and network namespaces on this host. Owned by the Server; one executor.
#pragma once

#include <memory>

#include "control/steps.h"
#include "egress/host_names.h"
#include "egress/networks.h"
#include "machine/qemu/qemu_engine.h"
#include "obs/exceptions.h"
#include "server/hosting.h"
#include "server/server_config.h"

namespace firebreak::server {

class QemuHosting final : public Hosting {
 public:
  struct Needs {
    net::asio::any_io_executor executor;
    net::asio::thread_pool& pool;
    const core::Clock& clock;
    obs::Log& log;
    obs::Exceptions exceptions;
    control::Steps steps;
  };
  // Chooses the accelerator, which may take a trial.
  static Result<std::unique_ptr<Hosting>> open(const ServerConfig& config, Needs needs);

  const machine::Engines& engines() const override { return *engines_; }
  egress::Networks* networks() const override { return networks_.get(); }
  Result<> keep_bases(const std::string& directory) override {
    return engine_->keep_bases(directory);
  }
  void close() override;

 private:
  explicit QemuHosting(std::string data_dir) : data_dir_(std::move(data_dir)) {}
  // Where the host cannot, microVMs run without networks.
  void open_networks(const ServerConfig& config, const Needs& needs);

  std::string data_dir_;
  std::unique_ptr<egress::HostNames> names_;
  std::unique_ptr<egress::Networks> networks_;
  std::unique_ptr<machine::QemuEngine> engine_;
  std::optional<machine::Engines> engines_;  // the default is the one it is made with
};

}  // namespace firebreak::server
