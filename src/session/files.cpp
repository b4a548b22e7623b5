#include "session/files.h"

#include <algorithm>

#include "base/text.h"
#include "machine/agent_client.h"

namespace firebreak::session {
namespace {

constexpr std::size_t kMostInfo = 64UL << 10;  // of one line of a listing
constexpr std::uint64_t kLongestRange = 1ULL << 62U;

// "?path=...&name=value" of an agent's call.
class Query {
 public:
  Query(std::string call, std::string_view name, const std::string& path) : text_(std::move(call)) {
    add(name, percent_encode(path, "/"));
  }
  Query& add(std::string_view name, std::string_view value) {
    text_ += separator_;
    text_.append(name);
    text_ += '=';
    text_.append(value);
    separator_ = '&';
    return *this;
  }
  Query& flag(std::string_view name, bool set) { return set ? add(name, "1") : *this; }
  Query& mode(std::optional<std::uint32_t> mode) {
    if (!mode) return *this;
    std::string digits;
    for (std::uint32_t rest = *mode; rest != 0; rest /= 8)
      digits.insert(digits.begin(), static_cast<char>('0' + rest % 8));
    return add("mode", "0" + digits);
  }
  std::string str() const { return text_; }

 private:
  std::string text_;
  char separator_ = '?';
};

Result<FileInfo> parse_info(const Guest& guest, const json::object& object) {
  JsonReader reader(object);
  FileInfo info;
  info.name = guest.out_whole(Origin::file, reader.string("name"));
  info.type = reader.string("type");
  info.size = reader.u64_or("size", 0);
  info.mode = static_cast<std::uint32_t>(reader.u64_or("mode", 0));
  info.uid = static_cast<std::uint32_t>(reader.u64_or("uid", 0));
  info.gid = static_cast<std::uint32_t>(reader.u64_or("gid", 0));
  if (const json::value* time = object.if_contains("mtime_ns"); time != nullptr && time->is_int64())
    info.mtime_ns = time->as_int64();
  if (reader.has("target")) info.target = guest.out_whole(Origin::file, reader.string("target"));
  if (auto ok = reader.result(); !ok)
    return fail(Code::guest, "bad description of a file", ok.error().message);
  return info;
}

// The first bytes are context for the outlet, and so is what follows the length.
struct Range {
  std::uint64_t context = 0;
  std::optional<std::uint64_t> length;
};

net::Task<Result<Download>> download(const Guest& guest, std::string call, Origin origin,
                                     Range range, Deadline deadline) {
  FB_CO_TRY_ASSIGN(auto stream, guest.agent().data_stream("GET", std::move(call), true));
  FB_CO_TRY_ASSIGN(const net::Reply head,
                   guest.told(co_await machine::expect_head(*stream, deadline)));
  const auto size = parse_u64(wire::find_header(head.headers, "x-size"));
  co_return Download(guest, std::move(stream), origin, size, range.context, range.length);
}

net::Task<Result<>> upload(const Guest& guest, std::string call, Source source, Deadline deadline) {
  FB_CO_TRY(co_await guest.ask(control::Act::write_file));
  FB_CO_TRY_ASSIGN(auto stream, guest.agent().data_stream("PUT", std::move(call), false));
  for (;;) {
    FB_CO_TRY_ASSIGN(const std::string bytes, co_await source());
    if (bytes.empty()) break;
    guest.took(bytes.size());
    // The agent may answer (an error) before it has read everything.
    if (!co_await stream->write(bytes, deadline)) break;
  }
  stream->finish();
  co_return guest.told(co_await machine::expect_ok(*stream, deadline));
}

net::Task<Result<>> change(const Guest& guest, std::string call, Deadline deadline) {
  FB_CO_TRY(co_await guest.ask(control::Act::write_file));
  FB_CO_TRY(guest.told(co_await guest.agent().data_call("POST", std::move(call), {}, deadline)));
  co_return Result<>();
}

}  // namespace

Download::Download(const Guest& guest, std::unique_ptr<net::ChannelStream> stream, Origin origin,
                   std::optional<std::uint64_t> size, std::uint64_t context,
                   std::optional<std::uint64_t> length)
    : guest_(guest),
      stream_(std::move(stream)),
      flow_(guest.open(origin)),
      size_(size),
      context_(context),
      length_(length) {}

net::Task<Result<std::string>> Download::next(Deadline deadline) {
  while (!ended_) {
    FB_CO_TRY_ASSIGN(std::string bytes, co_await stream_->read(deadline));
    ended_ = bytes.empty();
    if (context_ > 0 && !ended_) {
      const std::size_t before = std::min<std::uint64_t>(context_, bytes.size());
      flow_->context(bytes.substr(0, before));
      bytes.erase(0, before);
      context_ -= before;
      if (bytes.empty()) continue;
    }
    std::string out = ended_ ? flow_->end() : guest_.out(*flow_, std::move(bytes));
    // What lies behind the range was read for the outlet. It changes no size, so the range ends
    // here.
    if (length_) {
      if (out.size() > *length_) out.resize(*length_);
      *length_ -= out.size();
      ended_ = ended_ || *length_ == 0;
    }
    if (!out.empty()) co_return out;
  }
  co_return std::string();
}

net::Task<Result<Download>> read_file(const Guest& guest, std::string path, std::uint64_t offset,
                                      std::optional<std::uint64_t> length, Deadline deadline) {
  // The outlet also sees what stands around the range.
  const std::uint64_t context = std::min<std::uint64_t>(offset, guest.reach());
  Query call("/files", "path", path);
  if (offset > context) call.add("offset", std::to_string(offset - context));
  if (length && *length < kLongestRange)
    call.add("length", std::to_string(context + *length + guest.reach()));
  co_return co_await download(guest, call.str(), Origin::file, {context, length}, deadline);
}

net::Task<Result<>> write_file(const Guest& guest, std::string path, WriteOptions options,
                               Source source, Deadline deadline) {
  Query call("/files", "path", path);
  call.mode(options.mode).flag("append", options.append).flag("parents", options.parents);
  if (options.offset) call.add("offset", std::to_string(*options.offset));
  if (!options.user.empty()) call.add("user", percent_encode(options.user, ""));
  co_return co_await upload(guest, call.str(), std::move(source), deadline);
}

net::Task<Result<FileInfo>> stat_file(const Guest& guest, std::string path, bool follow,
                                      Deadline deadline) {
  Query call("/files/stat", "path", path);
  call.flag("follow", follow);
  FB_CO_TRY_ASSIGN(const json::object answer,
                   guest.told(co_await guest.agent().data_call("GET", call.str(), {}, deadline)));
  co_return parse_info(guest, answer);
}

net::Task<Result<>> list_directory(const Guest& guest, std::string path,
                                   std::function<net::Task<Result<>>(FileInfo)> sink,
                                   Deadline deadline) {
  FB_CO_TRY_ASSIGN(
      auto lines, guest.agent().data_stream("GET", Query("/files/list", "path", path).str(), true));
  FB_CO_TRY(guest.told(co_await machine::expect_head(*lines, deadline)));
  std::string held;
  for (;;) {
    FB_CO_TRY_ASSIGN(const std::string bytes, co_await lines->read(deadline));
    if (bytes.empty()) break;
    held += bytes;
    std::size_t at = 0;
    for (std::size_t end; (end = held.find('\n', at)) != std::string::npos; at = end + 1) {
      FB_CO_TRY_ASSIGN(const json::object object,
                       parse_json_object(std::string_view(held).substr(at, end - at)));
      FB_CO_TRY_ASSIGN(FileInfo info, parse_info(guest, object));
      FB_CO_TRY(co_await sink(std::move(info)));
    }
    held.erase(0, at);
    if (held.size() > kMostInfo) co_return fail(Code::guest, "a line of the listing is too long");
  }
  if (!held.empty()) co_return fail(Code::guest, "the listing ended in the middle of a line");
  co_return Result<>();
}

net::Task<Result<>> make_directory(const Guest& guest, std::string path,
                                   std::optional<std::uint32_t> mode, bool parents,
                                   Deadline deadline) {
  Query call("/files/mkdir", "path", path);
  call.mode(mode).flag("parents", parents);
  co_return co_await change(guest, call.str(), deadline);
}

net::Task<Result<>> remove_file(const Guest& guest, std::string path, bool recursive,
                                Deadline deadline) {
  Query call("/files/remove", "path", path);
  call.flag("recursive", recursive);
  co_return co_await change(guest, call.str(), deadline);
}

net::Task<Result<>> rename_file(const Guest& guest, std::string from, std::string to,
                                Deadline deadline) {
  Query call("/files/rename", "from", from);
  call.add("to", percent_encode(to, "/"));
  co_return co_await change(guest, call.str(), deadline);
}

net::Task<Result<Download>> read_archive(const Guest& guest, std::string path, Deadline deadline) {
  co_return co_await download(guest, Query("/tar", "path", path).str(), Origin::archive, {},
                              deadline);
}

net::Task<Result<>> write_archive(const Guest& guest, std::string path, Source source,
                                  Deadline deadline) {
  co_return co_await upload(guest, Query("/tar", "path", path).str(), std::move(source), deadline);
}

}  // namespace firebreak::session
