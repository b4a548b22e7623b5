// Routes of files: bytes, listings and tar archives, streamed between the client and the agent.
#include "api/native/guest_call.h"
#include "api/native/native_api.h"
#include "base/text.h"

namespace firebreak::api {
namespace {

constexpr auto kStreamDeadline = std::chrono::hours(6);

struct FileCall {
  std::string_view method;
  std::string_view pattern;  // below /v1/microvms/{id}
  std::string_view agent_path;
  std::string_view agent_method;
  std::string_view summary;
  std::string_view content_type;
};

// Only query values of `fields.h` have come this far, and the agent knows all of them.
std::string agent_target(const Call& call, const FileCall& file) {
  std::string target(file.agent_path);
  char separator = '?';
  for (const auto& [name, value] : call.target.query) {
    target += separator + name + "=" + percent_encode(value, "/");
    separator = '&';
  }
  return target;
}

// The client's body to the agent. The agent may answer (an error) before it has read everything.
net::Task<Result<>> send_body(Call& call, const control::Lease& held, net::ChannelStream& stream) {
  const Deadline deadline = Deadline::in(kStreamDeadline);
  for (;;) {
    FB_CO_TRY_ASSIGN(const std::string bytes, co_await call.exchange.read(deadline));
    if (bytes.empty()) break;
    held.count(bytes.size(), 0);
    if (!co_await stream.write(bytes, deadline)) break;
  }
  stream.finish();
  co_return Result<>();
}

net::Task<Result<>> answer_body(Call& call, const control::Lease& held, net::ChannelStream& stream,
                                const net::Reply& head, std::string content_type) {
  const Deadline deadline = Deadline::in(kStreamDeadline);
  wire::Headers headers{{"content-type", std::move(content_type)}};
  if (auto size = wire::find_header(head.headers, "x-size"); !size.empty())
    headers.push_back({"x-size", std::string(size)});
  FB_CO_TRY(co_await call.exchange.start(200, std::move(headers), deadline));
  for (;;) {
    FB_CO_TRY_ASSIGN(const std::string bytes, co_await stream.read(deadline));
    if (bytes.empty()) break;
    held.count(0, bytes.size());
    FB_CO_TRY(co_await call.exchange.write(bytes, deadline));
  }
  co_return co_await call.exchange.finish(deadline);
}

net::Task<Result<>> relay(control::Supervisor& supervisor, Call& call, const FileCall& file) {
  FB_CO_TRY_ASSIGN(control::Lease held, co_await lease(supervisor, call));
  const bool upload = file.method == "PUT";
  FB_CO_TRY_ASSIGN(auto stream, held.agent().data_stream(std::string(file.agent_method),
                                                         agent_target(call, file), !upload));
  if (upload) FB_CO_TRY(co_await send_body(call, held, *stream));
  const Deadline deadline = Deadline::in(kStreamDeadline);
  FB_CO_TRY_ASSIGN(net::Reply head, co_await stream->head(deadline));
  if (head.status < 200 || head.status > 299) {
    while (head.body.size() < (64UL << 10)) {
      FB_CO_TRY_ASSIGN(const std::string more, co_await stream->read(call.deadline));
      if (more.empty()) break;
      head.body += more;
    }
    co_return std::unexpected(machine::agent_error(head));
  }
  co_return co_await answer_body(call, held, *stream, head, std::string(file.content_type));
}

const FileCall kFileCalls[] = {
    {"GET", "/files", "/files", "GET", "Read a file: ?path, ?offset, ?length",
     "application/octet-stream"},
    {"PUT", "/files", "/files", "PUT",
     "Write a file: ?path, ?mode, ?append=1, ?offset, ?user, ?parents=1; replaced whole or not at "
     "all",
     "application/json"},
    {"GET", "/files/stat", "/files/stat", "GET", "What a path is", "application/json"},
    {"GET", "/files/list", "/files/list", "GET", "Entries of a directory, one JSON object a line",
     "application/x-ndjson"},
    {"POST", "/files/mkdir", "/files/mkdir", "POST", "Make a directory", "application/json"},
    {"DELETE", "/files", "/files/remove", "POST", "Remove: ?path, ?recursive=1",
     "application/json"},
    {"POST", "/files/rename", "/files/rename", "POST", "Rename: ?from, ?to", "application/json"},
    {"GET", "/tar", "/tar", "GET", "A directory's content or a file as a tar archive",
     "application/x-tar"},
    {"PUT", "/tar", "/tar", "PUT", "Unpack a tar archive below a directory", "application/json"},
};

}  // namespace

void NativeApi::add_file_routes() {
  for (const FileCall& file : kFileCalls) {
    router_.add({std::string(file.method), "/v1/microvms/{id}" + std::string(file.pattern),
                 std::string(file.summary), false,
                 [this, &file](Call& call) { return relay(supervisor_, call, file); }});
  }
}

}  // namespace firebreak::api
