#include "server.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <iostream>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/text.h"
#include "server/qemu_hosting.h"
#include "server/server.h"
#include "server/server_values.h"
#include "store/sqlite/sqlite_store.h"

namespace firebreak::cli {
namespace {

// FIREBREAK_FAULT=POINT[:N] ends this process, as a crash would, when the point is reached the N-th
// time: how the tests show that nothing is lost. FIREBREAK_PAUSE stops it there instead, for harm
// that a living server has to cope with.
class FaultPoint {
 public:
  FaultPoint(const char* variable, int signal) : signal_(signal) {
    const char* text = std::getenv(variable);
    if (text == nullptr) return;
    point_ = text;
    if (const auto at = point_.rfind(':'); at != std::string::npos) {
      left_ = static_cast<int>(parse_u64(point_.substr(at + 1)).value_or(1));
      point_.resize(at);
    }
  }
  void reach(std::string_view point) {
    // raise: the thread that is at the point does not go on.
    if (!point_.empty() && point == point_ && --left_ == 0) ::raise(signal_);
  }

 private:
  int signal_;
  std::string point_;
  std::atomic<int> left_ = 1;
};

// The process around a server: its loop, its threads, real time, and the host.
class Process {
 public:
  explicit Process(const ServerConfig& config)
      : config_(config),
        log_(STDERR_FILENO,
             config.log_format == "json" ? obs::LogFormat::json : obs::LogFormat::text,
             server::level_of(config.log_level)) {}

  Result<> run(server::ServerAddresses addresses) {
    server::Server server(config_, std::move(addresses), surroundings());
    FB_TRY(server.open());
    net::asio::signal_set signals(io_, SIGTERM, SIGINT);
    signals.async_wait([&server](boost::system::error_code ec, int) {
      if (!ec) server.stop();
    });
    const auto listening = [](const server::Listeners& listeners) {
      std::cout << "listening on " << listeners.url() << " " << listeners.endpoint_url()
                << std::endl;
    };
    server.start(listening, [this] { io_.stop(); });
    io_.run();
    return server.outcome();
  }

 private:
  server::Surroundings surroundings() {
    control::Steps steps([this](std::string_view point) { reach(point); });
    return {.io = io_,
            .pool = pool_,
            .clock = clock_,
            .pauses = pauses_,
            .log = log_,
            .metrics = metrics_,
            .steps = steps,
            .open_store =
                [this] {
                  return store::open_sqlite_store(
                      {.path = config_.data_dir + "/firebreak.db", .vfs = ""});
                },
            .open_hosting =
                [this, steps] {
                  return server::QemuHosting::open(config_, {.executor = io_.get_executor(),
                                                             .pool = pool_,
                                                             .clock = clock_,
                                                             .log = log_,
                                                             .exceptions = {log_, metrics_},
                                                             .steps = steps});
                }};
  }

  // Any thread.
  void reach(std::string_view point) {
    log_.debug("step", {{"point", point}});
    crash_.reach(point);
    pause_.reach(point);
  }

  ServerConfig config_;
  core::SystemClock clock_;
  control::RealPauses pauses_;
  obs::Log log_;
  obs::Metrics metrics_;
  FaultPoint crash_{"FIREBREAK_FAULT", SIGKILL};
  FaultPoint pause_{"FIREBREAK_PAUSE", SIGSTOP};
  net::asio::io_context io_{1};
  net::asio::thread_pool pool_{4};
};

}  // namespace

Result<> serve(const ServerConfig& config) {
  FB_TRY(server::check_can_serve(config));
  // Before anything is written or started: a server that cannot answer leaves no trace.
  FB_TRY_ASSIGN(server::ServerAddresses addresses, server::take_addresses(config));
  // Orphans of jails come to us and are reaped.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  ::signal(SIGPIPE, SIG_IGN);
  return Process(config).run(std::move(addresses));
}

}  // namespace firebreak::cli
