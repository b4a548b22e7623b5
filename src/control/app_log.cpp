#include "control/app_log.h"

#include <chrono>

#include <unistd.h>

#include "base/sys.h"
#include "base/text.h"

namespace firebreak::control {
namespace {

// Beside the log: pairs of position and Unix milliseconds.
constexpr std::string_view kMarks = ".times";
constexpr core::Seconds kMarkEvery{1};

}  // namespace

Result<> AppLog::mark(const core::MicrovmId& id, std::uint64_t position) {
  const core::Time now = core::SystemClock().now();
  core::Time& last = marked_[id];
  if (now - last < kMarkEvery) return {};
  last = now;
  FB_TRY_ASSIGN(const UniqueFd file,
                sys::open(path(id) + std::string(kMarks), O_WRONLY | O_CREAT | O_APPEND, 0600));
  std::string entry;
  put_u64(entry, position);
  put_u64(entry, static_cast<std::uint64_t>(core::to_unix_ms(now)));
  return sys::write_all(file.get(), entry);
}

Result<std::vector<AppLog::Mark>> AppLog::marks(const core::MicrovmId& id) const {
  std::vector<Mark> marks;
  const std::string file = path(id) + std::string(kMarks);
  if (!sys::exists(file)) return marks;
  FB_TRY_ASSIGN(const std::string bytes, sys::read_file(file, 2 * kMost));
  for (std::size_t at = 0; at + 16 <= bytes.size(); at += 16) {
    marks.push_back({get_u64(bytes.data() + at), core::from_unix_ms(static_cast<std::int64_t>(
                                                     get_u64(bytes.data() + at + 8)))});
  }
  return marks;
}

Result<> AppLog::append(const core::MicrovmId& id, wire::FrameType type, std::string_view bytes) {
  FB_TRY(sys::mkdirs(directory_, 0700));
  FB_TRY_ASSIGN(const UniqueFd file, sys::open(path(id), O_WRONLY | O_CREAT | O_APPEND, 0600));
  FB_TRY_ASSIGN(const std::uint64_t size, sys::file_size(file.get()));
  if (full_.contains(id)) return {};
  FB_TRY(mark(id, size));
  std::string frame;
  wire::put_frame(type, bytes, frame);
  if (size + frame.size() >= kMost) {
    frame.clear();
    std::string dropped;
    put_u64(dropped, bytes.size());
    wire::put_frame(wire::FrameType::gap, dropped, frame);
    full_.insert(id);
  }
  FB_TRY(sys::write_all(file.get(), frame));
  changed_.notify();
  return {};
}

Result<std::string> AppLog::read(const core::MicrovmId& id, std::uint64_t position) const {
  auto file = sys::open(path(id), O_RDONLY);
  if (!file) return std::string();  // it has printed nothing
  std::string bytes(256UL * 1024, '\0');
  const ssize_t count =
      ::pread(file->get(), bytes.data(), bytes.size(), static_cast<off_t>(position));
  if (count < 0) return fail_errno("reading the log");
  bytes.resize(static_cast<std::size_t>(count));
  return bytes;
}

std::uint64_t AppLog::offset(const core::MicrovmId& id) const {
  std::uint64_t position = 0;
  std::uint64_t counted = 0;
  wire::FrameDecoder decoder;
  for (;;) {
    auto bytes = read(id, position);
    if (!bytes || bytes->empty()) return counted;
    position += bytes->size();
    decoder.feed(*bytes);
    for (auto frame = decoder.next(); frame && *frame; frame = decoder.next()) {
      const bool gap = (*frame)->type == wire::FrameType::gap && (*frame)->payload.size() == 8;
      counted += gap ? get_u64((*frame)->payload.data()) : (*frame)->payload.size();
    }
  }
}

core::MicrovmId AppLog::owner_of(const std::string& file) {
  return core::MicrovmId(file.ends_with(kMarks) ? file.substr(0, file.size() - kMarks.size())
                                                : file);
}

void AppLog::keep_only(const std::function<bool(const core::MicrovmId&)>& known) {
  auto names = sys::list_dir(directory_);
  if (!names) return;
  for (const std::string& name : *names) {
    const core::MicrovmId id = owner_of(name);
    if (known(id)) continue;
    ::unlink((directory_ + "/" + name).c_str());
    full_.erase(id);
    marked_.erase(id);
  }
}

}  // namespace firebreak::control
