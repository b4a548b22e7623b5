#include "guest/exec_service.h"

#include <algorithm>
#include <csignal>

#include "guest/output_stream.h"

namespace firebreak::guest {
namespace {

using Handler = std::unique_ptr<StreamHandler>;

Handler answer_error(Exchange& exchange, const Error& error) {
  exchange.error(error);
  return nullptr;
}

// Body bytes on their way to a process. What the process has not read is not consumed, so the
// sender stops.
class StdinStream final : public StreamHandler, private Exec::StdinWaiter {
 public:
  StdinStream(std::shared_ptr<Exchange> exchange, std::shared_ptr<Exec> exec, std::uint64_t skip,
              bool close)
      : exchange_(std::move(exchange)), exec_(std::move(exec)), skip_(skip), close_(close) {
    exec_->set_stdin_waiter(this);
  }
  StdinStream(const StdinStream&) = delete;
  StdinStream& operator=(const StdinStream&) = delete;
  ~StdinStream() override { exec_->clear_stdin_waiter(this); }

  void on_data(std::string_view bytes) override {
    if (answered_) return exchange_->consume(bytes.size());
    waiting_.append(bytes);
    pump();
  }
  void on_end() override {
    complete_ = true;
    pump();
  }
  void on_closed() override { exec_->clear_stdin_waiter(this); }

 private:
  void on_stdin_room() override { pump(); }
  void on_stdin_replaced() override {
    if (!answered_) exchange_->reset();
    answered_ = true;
  }

  void pump() {
    if (answered_) return;
    const std::size_t known = std::min<std::uint64_t>(skip_, waiting_.size());
    skip_ -= known;
    std::size_t taken = known;
    if (taken < waiting_.size()) {
      if (!exec_->stdin_open()) return answer_closed();
      taken += exec_->write_stdin(std::string_view(waiting_).substr(taken));
      if (answered_) return;  // the write found the other end closed, and said so
    }
    waiting_.erase(0, taken);
    exchange_->consume(taken);
    if (!waiting_.empty() && !exec_->stdin_open()) return answer_closed();
    if (!complete_ || !waiting_.empty()) return;
    answered_ = true;
    if (close_) exec_->end_stdin();
    exchange_->json(200, {{"stdin_offset", exec_->stdin_offset()}});
  }

  void answer_closed() {
    answered_ = true;
    exchange_->consume(waiting_.size());
    waiting_.clear();
    exchange_->error({Code::conflict, "stdin of exec " + exec_->id() + " is closed", {}});
  }

  std::shared_ptr<Exchange> exchange_;
  std::shared_ptr<Exec> exec_;
  std::uint64_t skip_;  // bytes of the body that the process got before
  bool close_;
  bool complete_ = false;
  bool answered_ = false;
  std::string waiting_;
};

}  // namespace

Handler ExecService::open(const Request& request, const std::shared_ptr<Exchange>& exchange) {
  if (request.is("POST", "/execs")) return create(request, exchange);
  if (request.is("GET", "/execs")) {
    list(*exchange);
    return nullptr;
  }
  if (request.segments.size() >= 2) return one(request, exchange);
  return answer_error(*exchange, {Code::not_found, "no such operation", {}});
}

Handler ExecService::create(const Request& request, const std::shared_ptr<Exchange>& exchange) {
  const bool attach = request.flag("attach");
  const auto purpose =
      request.flag("rehearsal") ? ExecTable::Purpose::rehearsal : ExecTable::Purpose::normal;
  return json_then(
      exchange, [this, exchange, attach, purpose](const json::object& body) -> Handler {
        auto spec = parse_exec_spec(body);
        if (!spec) return answer_error(*exchange, spec.error());
        auto exec = table_.create(*spec, purpose);
        if (!exec) return answer_error(*exchange, exec.error());
        if (attach) {
          // Who writes to it waits for its id.
          const bool fed = spec->with_stdin || spec->terminal;
          return std::make_unique<OutputStream>(
              exchange, *exec, 0, fed ? OutputStream::Announce::now : OutputStream::Announce::soon);
        }
        exchange->json(201, {{"id", (*exec)->id()}, {"pid", (*exec)->tenant_pid()}});
        return nullptr;
      });
}

Handler ExecService::one(const Request& request, const std::shared_ptr<Exchange>& exchange) {
  auto found = table_.find(request.segments[1]);
  if (!found) return answer_error(*exchange, found.error());
  const std::shared_ptr<Exec>& exec = *found;
  if (request.segments.size() == 2 && request.method == "GET") {
    exchange->json(200, exec->status());
    return nullptr;
  }
  if (request.segments.size() == 2 && request.method == "DELETE") {
    if (auto done = table_.remove(exec->id()); !done) return answer_error(*exchange, done.error());
    exchange->json(200, {});
    return nullptr;
  }
  const std::string what = request.segments.size() == 3 ? request.segments[2] : "";
  if (what == "output" && request.method == "GET") return output(request, exchange, exec);
  if (what == "stdin" && request.method == "POST") return input(request, exchange, exec);
  const auto answer = [exchange](const Result<>& done) {
    if (!done) return exchange->error(done.error());
    exchange->json(200, {});
  };
  if (what == "signal" && request.method == "POST") {
    return json_call(exchange, [exec, answer](const json::object& body) {
      JsonReader reader(body);
      const auto number = reader.u64_or("signal", SIGTERM);
      const bool group = reader.boolean_or("group", true);
      if (auto fine = reader.result(); !fine) return answer(fine);
      answer(exec->signal(static_cast<int>(std::min<std::uint64_t>(number, 1000)), group));
    });
  }
  if (what == "resize" && request.method == "POST") {
    return json_call(exchange, [exec, answer](const json::object& body) {
      JsonReader reader(body);
      const auto cols = reader.u64("cols");
      const auto rows = reader.u64("rows");
      if (cols > 0xffff || rows > 0xffff) reader.reject("cols", "or rows is too large");
      if (auto fine = reader.result(); !fine) return answer(fine);
      answer(exec->resize({static_cast<std::uint16_t>(cols), static_cast<std::uint16_t>(rows)}));
    });
  }
  return answer_error(*exchange, {Code::not_found, "no such operation", {}});
}

Handler ExecService::output(const Request& request, const std::shared_ptr<Exchange>& exchange,
                            const std::shared_ptr<Exec>& exec) {
  auto offset = request.number("offset", 0);
  if (offset && *offset > exec->ring().end())
    offset = fail(Code::invalid, "the offset is beyond the output");
  if (!offset) return answer_error(*exchange, offset.error());
  return std::make_unique<OutputStream>(exchange, exec, *offset, OutputStream::Announce::no);
}

Handler ExecService::input(const Request& request, const std::shared_ptr<Exchange>& exchange,
                           const std::shared_ptr<Exec>& exec) {
  auto offset = request.number("offset", exec->stdin_offset());
  if (offset && *offset > exec->stdin_offset())
    offset = fail(Code::conflict, "the exec has got only " + std::to_string(exec->stdin_offset()) +
                                      " bytes so far");
  if (!offset) return answer_error(*exchange, offset.error());
  return std::make_unique<StdinStream>(exchange, exec, exec->stdin_offset() - *offset,
                                       request.flag("eof"));
}

void ExecService::list(Exchange& exchange) const {
  json::array execs;
  for (const auto& [id, exec] : table_.all())
    if (!ExecTable::is_rehearsal(*exec)) execs.push_back(exec->status());
  exchange.json(200, {{"execs", std::move(execs)}});
}

}  // namespace firebreak::guest
