#include "guest/output_stream.h"

#include "base/text.h"
#include "wire/frames.h"

namespace firebreak::guest {
namespace {
constexpr std::size_t kFramePayload = 32 * 1024UL;
constexpr std::chrono::milliseconds kSoon{10};
}  // namespace

OutputStream::OutputStream(std::shared_ptr<Exchange> exchange, std::shared_ptr<Exec> exec,
                           std::uint64_t offset, Announce announce)
    : exchange_(std::move(exchange)), exec_(std::move(exec)), offset_(offset) {
  if (announce != Announce::no) {
    const json::object started{{"id", exec_->id()}, {"pid", exec_->tenant_pid()}};
    wire::put_frame(wire::FrameType::started, json::serialize(started), pending_);
  }
  exec_->set_view(this);
  if (announce == Announce::soon && !exec_->finished())
    begin_timer_ = exec_->reactor().after(kSoon, [this] { pump(); });
  else
    pump();
}

OutputStream::~OutputStream() {
  on_closed();
}

void OutputStream::on_closed() {
  exec_->clear_view(this);
  exec_->reactor().cancel(begin_timer_);
}

bool OutputStream::next_frame() {
  const auto piece = exec_->ring().read(offset_, kFramePayload);
  if (piece.gap > 0) {
    std::string count;
    put_u64(count, piece.gap);
    wire::put_frame(wire::FrameType::gap, count, pending_);
    offset_ += piece.gap;
    return true;
  }
  if (!piece.bytes.empty()) {
    wire::put_frame(piece.type, piece.bytes, pending_);
    offset_ += piece.bytes.size();
    exec_->ring().sent(offset_);
    exec_->made_room();
    return true;
  }
  if (over_ || !exec_->finished()) return false;
  wire::put_frame(wire::FrameType::exit, json::serialize(to_json(*exec_->exit())), pending_);
  over_ = true;
  return true;
}

void OutputStream::pump() {
  if (!begun_) {
    begun_ = true;
    exec_->reactor().cancel(begin_timer_);
    exchange_->begin(200, "application/x-firebreak-frames");
  }
  for (;;) {
    if (!pending_.empty()) {
      pending_.erase(0, exchange_->write(pending_));
      if (!pending_.empty()) return;
    }
    if (!next_frame()) break;
  }
  if (over_) exchange_->finish();
}

}  // namespace firebreak::guest
