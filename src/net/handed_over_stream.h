// A connection with bytes that were received together with the answer that handed it over: they
// are read first. Owned, and used, as the stream inside.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "net/byte_stream.h"

namespace firebreak::net {

class HandedOverStream : public ByteStream {
 public:
  HandedOverStream(std::unique_ptr<ByteStream> stream, std::string received)
      : stream_(std::move(stream)), received_(std::move(received)) {}

  Task<Result<std::string>> read(Deadline deadline) override {
    if (!received_.empty()) co_return std::exchange(received_, {});
    co_return co_await stream_->read(deadline);
  }
  Task<Result<>> write(std::string_view bytes, Deadline deadline) override {
    return stream_->write(bytes, deadline);
  }
  Task<Result<>> finish(Deadline deadline) override { return stream_->finish(deadline); }
  void close() override {
    received_.clear();
    stream_->close();
  }
  bool quiet() const override { return received_.empty() && stream_->quiet(); }

 private:
  std::unique_ptr<ByteStream> stream_;
  std::string received_;
};

}  // namespace firebreak::net
