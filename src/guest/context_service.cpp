#include "guest/context_service.h"

#include <algorithm>

namespace firebreak::guest {
namespace {

using Handler = std::unique_ptr<StreamHandler>;

constexpr std::size_t kPiece = 32 * 1024UL;

Handler answer_error(Exchange& exchange, const Error& error) {
  exchange.error(error);
  return nullptr;
}

// Follows a run from an offset to its end.
class RunStream final : public StreamHandler, private RunView {
 public:
  RunStream(std::shared_ptr<Exchange> exchange, std::shared_ptr<ContextRun> run,
            std::uint64_t offset)
      : exchange_(std::move(exchange)), run_(std::move(run)), offset_(offset) {
    exchange_->begin(200, "application/x-firebreak-frames");
    run_->set_view(this);
    pump();
  }
  RunStream(const RunStream&) = delete;
  RunStream& operator=(const RunStream&) = delete;
  ~RunStream() override { run_->clear_view(this); }

  void on_data(std::string_view bytes) override { exchange_->consume(bytes.size()); }
  void on_writable() override { pump(); }
  void on_closed() override { run_->clear_view(this); }

 private:
  void on_run_output() override { pump(); }
  void on_run_replaced() override { exchange_->reset(); }

  void pump() {
    for (;;) {
      const std::string_view bytes = run_->read(offset_, kPiece);
      if (bytes.empty()) break;
      const std::size_t taken = exchange_->write(bytes);
      if (taken == 0) return;
      offset_ += taken;
      run_->sent(offset_);
    }
    if (run_->finished()) exchange_->finish();
  }

  std::shared_ptr<Exchange> exchange_;
  std::shared_ptr<ContextRun> run_;
  std::uint64_t offset_;
};

}  // namespace

Handler ContextService::open(const Request& request, const std::shared_ptr<Exchange>& exchange) {
  if (request.is("GET", "/contexts")) {
    list(*exchange);
    return nullptr;
  }
  if (request.is("POST", "/contexts")) {
    return json_call(exchange, [this, exchange](const json::object& body) {
      table_.create(body, [exchange](const Result<std::shared_ptr<Context>>& made) {
        if (!made) return exchange->error(made.error());
        exchange->json(201, (*made)->status());
      });
    });
  }
  if (request.segments.size() >= 2) return one(request, exchange);
  return answer_error(*exchange, {Code::not_found, "no such operation", {}});
}

Handler ContextService::one(const Request& request, const std::shared_ptr<Exchange>& exchange) {
  auto found = table_.find(request.segments[1]);
  if (!found) return answer_error(*exchange, found.error());
  const std::shared_ptr<Context>& context = *found;
  const auto& path = request.segments;
  if (path.size() == 2 && request.method == "GET") {
    exchange->json(200, context->status());
    return nullptr;
  }
  if (path.size() == 2 && request.method == "DELETE") {
    if (auto gone = table_.remove(context->id()); !gone)
      return answer_error(*exchange, gone.error());
    exchange->json(200, {});
    return nullptr;
  }
  if (path.size() == 3 && request.method == "POST") return act(path[2], exchange, context);
  if (path.size() == 5 && path[2] == "runs" && path[4] == "interrupt" && request.method == "POST")
    return interrupt(exchange, context->id(), path[3]);
  if (path.size() == 5 && path[2] == "runs" && path[4] == "output" && request.method == "GET") {
    auto run = context->find_run(path[3]);
    if (!run) return answer_error(*exchange, run.error());
    auto offset = request.number("offset", 0);
    if (offset && *offset > (*run)->end())
      offset = fail(Code::invalid, "the offset is beyond the output");
    if (offset && *offset < (*run)->begin())
      offset = fail(Code::not_found, "the output at this offset is no longer held");
    if (!offset) return answer_error(*exchange, offset.error());
    return std::make_unique<RunStream>(exchange, *run, *offset);
  }
  return answer_error(*exchange, {Code::not_found, "no such operation", {}});
}

Handler ContextService::act(const std::string& what, const std::shared_ptr<Exchange>& exchange,
                            const std::shared_ptr<Context>& context) {
  // The body may come late, and the context may be deleted before it: only its id is kept.
  const std::string id = context->id();
  if (what == "run") return run(exchange, id);
  if (what == "interrupt") return interrupt(exchange, id, "");
  if (what == "restart") {
    return json_call(exchange, [this, exchange, id](const json::object&) {
      const auto found = table_.find(id);
      if (!found) return exchange->error(found.error());
      const std::weak_ptr<Context> weak = *found;
      auto begun = (*found)->restart([exchange, weak](const Result<>& started) {
        if (!started) return exchange->error(started.error());
        if (const auto one = weak.lock()) exchange->json(200, one->status());
      });
      if (!begun) exchange->error(begun.error());
    });
  }
  return answer_error(*exchange, {Code::not_found, "no such operation", {}});
}

Handler ContextService::interrupt(const std::shared_ptr<Exchange>& exchange, const std::string& id,
                                  const std::string& run) {
  return json_call(exchange, [this, exchange, id, run](const json::object&) {
    const auto found = table_.find(id);
    if (!found) return exchange->error(found.error());
    exchange->json(200, {{"interrupted", (*found)->interrupt(run)}});
  });
}

Handler ContextService::run(const std::shared_ptr<Exchange>& exchange, const std::string& id) {
  return json_then(exchange, [this, exchange, id](const json::object& body) -> Handler {
    const auto found = table_.find(id);
    if (!found) return answer_error(*exchange, found.error());
    JsonReader reader(body);
    std::string code = reader.string("code");
    std::optional<std::chrono::milliseconds> timeout;
    if (reader.has("timeout_ms"))
      timeout =
          std::chrono::milliseconds(std::min(reader.u64("timeout_ms"), std::uint64_t{1} << 40));
    if (code.find('\0') != std::string::npos) reader.reject("code", "contains a NUL byte");
    if (auto fine = reader.result(); !fine) return answer_error(*exchange, fine.error());
    auto started = (*found)->run(std::move(code), timeout);
    if (!started) return answer_error(*exchange, started.error());
    return std::make_unique<RunStream>(exchange, *started, 0);
  });
}

void ContextService::list(Exchange& exchange) const {
  json::array contexts;
  for (const auto& [id, context] : table_.all()) contexts.push_back(context->status());
  exchange.json(200, {{"contexts", std::move(contexts)}});
}

}  // namespace firebreak::guest
