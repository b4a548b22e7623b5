// Bulk between an HTTP stream and blocking file work: a Download pulls pieces from a source, an
// Upload pushes pieces into a sink, each piece as one job of the workers, so that a peer that
// stalls holds no thread. Data thread; sources and sinks run on workers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "guest/exchange.h"
#include "guest/reactor.h"
#include "guest/workers.h"

namespace firebreak::guest {

class Source {
 public:
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;
  // Appends about `want` bytes; false once there is no more.
  virtual Result<bool> read(std::string& out, std::size_t want) = 0;
};

class Sink {
 public:
  Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  virtual ~Sink() = default;  // before finish(): undoes what it can
  virtual Result<> write(std::string_view bytes) = 0;
  virtual Result<> finish() = 0;
};

struct OpenedSource {
  std::unique_ptr<Source> source;
  std::string content_type = "application/octet-stream";
  wire::Headers headers;
};

// All three run `open` or `call` on a worker.
std::unique_ptr<StreamHandler> download(Reactor& reactor, Workers& workers,
                                        std::shared_ptr<Exchange> exchange,
                                        std::function<Result<OpenedSource>()> open);
std::unique_ptr<StreamHandler> upload(Reactor& reactor, Workers& workers,
                                      std::shared_ptr<Exchange> exchange,
                                      std::function<Result<std::unique_ptr<Sink>>()> open);
void answer_from_worker(Reactor& reactor, Workers& workers, std::shared_ptr<Exchange> exchange,
                        std::function<Result<json::object>()> call);

}  // namespace firebreak::guest
