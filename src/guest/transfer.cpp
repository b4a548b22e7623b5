#include "guest/transfer.h"

namespace firebreak::guest {
namespace {

constexpr std::size_t kPiece = 128 * 1024UL;

// The stream owns the handler, jobs under way share the state behind it.
template <class State>
class Handler final : public StreamHandler {
 public:
  explicit Handler(std::shared_ptr<State> state) : state_(std::move(state)) {}
  void on_data(std::string_view bytes) override { state_->on_data(bytes); }
  void on_end() override { state_->on_end(); }
  void on_writable() override { state_->on_writable(); }

 private:
  std::shared_ptr<State> state_;
};

class Download : public std::enable_shared_from_this<Download> {
 public:
  Download(Reactor& reactor, Workers& workers, std::shared_ptr<Exchange> exchange,
           std::function<Result<OpenedSource>()> open)
      : reactor_(reactor),
        workers_(workers),
        exchange_(std::move(exchange)),
        open_(std::move(open)) {}

  // Opens and reads the first piece in one job: most files are small.
  void start() {
    workers_.submit([self = shared_from_this()] {
      auto opened = std::make_shared<Result<OpenedSource>>(self->open_());
      std::string piece;
      Result<bool> more = false;
      if (*opened) more = (*opened)->source->read(piece, kPiece);
      self->reactor_.post([self, opened, piece = std::move(piece), more] {
        if (!*opened) return self->exchange_->error(opened->error());
        if (!more) return self->exchange_->error(more.error());
        self->source_ = std::move((*opened)->source);
        self->exchange_->begin(200, (*opened)->content_type, (*opened)->headers);
        self->got(piece, more);
      });
    });
  }

  void on_data(std::string_view bytes) { exchange_->consume(bytes.size()); }
  void on_end() {}
  void on_writable() {
    pending_.erase(0, exchange_->write(pending_));
    if (pending_.empty()) next();
  }

 private:
  void got(std::string_view piece, const Result<bool>& more) {
    if (!more) return exchange_->reset();  // too late for a status
    more_ = *more;
    const std::size_t taken = exchange_->write(piece);
    pending_.assign(piece.substr(taken));
    if (pending_.empty()) next();
  }

  void next() {
    if (busy_ || !exchange_->open() || !source_) return;
    if (!more_) {
      source_.reset();
      return exchange_->finish();
    }
    busy_ = true;
    workers_.submit([self = shared_from_this()] {
      std::string piece;
      auto more = self->source_->read(piece, kPiece);
      self->reactor_.post([self, piece = std::move(piece), more = std::move(more)] {
        self->busy_ = false;
        self->got(piece, more);
      });
    });
  }

  Reactor& reactor_;
  Workers& workers_;
  std::shared_ptr<Exchange> exchange_;
  std::function<Result<OpenedSource>()> open_;
  std::unique_ptr<Source> source_;
  std::string pending_;
  bool more_ = true;
  bool busy_ = false;
};

class Upload : public std::enable_shared_from_this<Upload> {
 public:
  Upload(Reactor& reactor, Workers& workers, std::shared_ptr<Exchange> exchange,
         std::function<Result<std::unique_ptr<Sink>>()> open)
      : reactor_(reactor),
        workers_(workers),
        exchange_(std::move(exchange)),
        open_(std::move(open)) {}

  void on_data(std::string_view bytes) {
    if (over_) return exchange_->consume(bytes.size());
    waiting_.append(bytes);
    next();
  }
  void on_end() {
    complete_ = true;
    next();
  }
  void on_writable() {}

 private:
  // On a worker.
  Result<> take(std::string_view piece, bool last) {
    if (!sink_) {
      FB_TRY_ASSIGN(sink_, open_());
    }
    FB_TRY(sink_->write(piece));
    return last ? sink_->finish() : Result<>();
  }

  void next() {
    if (busy_ || over_ || (waiting_.empty() && !complete_)) return;
    busy_ = true;
    workers_.submit(
        [self = shared_from_this(), piece = std::exchange(waiting_, {}), last = complete_] {
          auto done = self->take(piece, last);
          self->reactor_.post([self, size = piece.size(), last, done = std::move(done)] {
            self->took(size, last, done);
          });
        });
  }

  void took(std::size_t size, bool last, const Result<>& done) {
    busy_ = false;
    exchange_->consume(size);
    if (!done || last) {
      over_ = true;
      exchange_->consume(waiting_.size());
      waiting_.clear();
      sink_.reset();
      if (!done) return exchange_->error(done.error());
      return exchange_->json(200, {});
    }
    next();
  }

  Reactor& reactor_;
  Workers& workers_;
  std::shared_ptr<Exchange> exchange_;
  std::function<Result<std::unique_ptr<Sink>>()> open_;
  std::unique_ptr<Sink>
      sink_;             // touched by the job at hand, or by the data thread when there is none
  std::string waiting_;  // bounded by the stream's window: consumed when written
  bool complete_ = false;
  bool busy_ = false;
  bool over_ = false;
};

}  // namespace

std::unique_ptr<StreamHandler> download(Reactor& reactor, Workers& workers,
                                        std::shared_ptr<Exchange> exchange,
                                        std::function<Result<OpenedSource>()> open) {
  auto state = std::make_shared<Download>(reactor, workers, std::move(exchange), std::move(open));
  state->start();
  return std::make_unique<Handler<Download>>(std::move(state));
}

std::unique_ptr<StreamHandler> upload(Reactor& reactor, Workers& workers,
                                      std::shared_ptr<Exchange> exchange,
                                      std::function<Result<std::unique_ptr<Sink>>()> open) {
  return std::make_unique<Handler<Upload>>(
      std::make_shared<Upload>(reactor, workers, std::move(exchange), std::move(open)));
}

void answer_from_worker(Reactor& reactor, Workers& workers, std::shared_ptr<Exchange> exchange,
                        std::function<Result<json::object>()> call) {
  workers.submit([&reactor, exchange = std::move(exchange), call = std::move(call)] {
    auto result = std::make_shared<Result<json::object>>(call());
    reactor.post([exchange, result] {
      if (!*result) return exchange->error(result->error());
      exchange->json(200, **result);
    });
  });
}

}  // namespace firebreak::guest
