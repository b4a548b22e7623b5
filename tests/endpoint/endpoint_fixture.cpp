// A native endpoint as a program, for clients in other languages and for benchmarks:
//   firebreak-endpoint-fixture [--plain] [--limits] [--hook-port N] [--connections-of-tenant N]
// Prints one line of JSON when it serves, then answers lines on stdin:
//   token PORTS SECONDS KIND OWN|NEIGHBOUR|OTHER ID  -> the token
//   revoke ID                                        -> ok
//   usage                                            -> {"rssKib":...,"in":...,"out":...}
// Ends with stdin.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <sstream>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <unistd.h>

#include "base/json.h"
#include "base/sys.h"
#include "base/text.h"
#include "endpoint/native_endpoint.h"
#include "net/task_group.h"

namespace firebreak::testing_support {
namespace {

namespace asio = net::asio;

std::uint64_t resident_kib() {
  const auto text = sys::read_file("/proc/self/status");
  const auto at = text->find("VmRSS:");
  return static_cast<std::uint64_t>(std::atoll(text->c_str() + at + 6));
}

std::string answer(NativeEndpoint& endpoint, const std::string& line) {
  std::istringstream words(line);
  std::string verb;
  words >> verb;
  if (verb == "token") {
    std::string ports;
    std::int64_t seconds = 0;
    std::string kind;
    std::string whose;
    std::string id;
    words >> ports >> seconds >> kind >> whose >> id;
    return endpoint.token(ports, core::Seconds(seconds),
                          core::parse_token_kind(kind).value_or(core::TokenKind::endpoint),
                          whose == "OWN"         ? NativeEndpoint::Whose::own
                          : whose == "NEIGHBOUR" ? NativeEndpoint::Whose::neighbour
                                                 : NativeEndpoint::Whose::other,
                          id);
  }
  if (verb == "revoke") {
    std::string id;
    words >> id;
    endpoint.tokens().revoke(core::TokenId(id), core::SystemClock().now() + core::Seconds(3600));
    return "ok";
  }
  const json::object usage{
      {"rssKib", resident_kib()}, {"in", endpoint.bytes_in()}, {"out", endpoint.bytes_out()}};
  return json::serialize(usage);
}

net::Task<void> serve(asio::io_context& io, NativeEndpoint& endpoint) {
  if (auto started = co_await endpoint.start(); !started) {
    std::cerr << started.error().text() << std::endl;
    io.stop();
    co_return;
  }
  const json::object about{{"url", endpoint.url()},
                           {"caFile", endpoint.ca_file()},
                           {"endpointId", endpoint.endpoint()},
                           {"pid", ::getpid()},
                           {"agentPid", endpoint.agent_pid()}};
  std::cout << json::serialize(about) << std::endl;
  asio::posix::stream_descriptor input(io, ::dup(STDIN_FILENO));
  std::string buffer;
  for (;;) {
    auto [ec, size] =
        co_await asio::async_read_until(input, asio::dynamic_buffer(buffer), '\n', net::kNoThrow);
    if (ec) break;
    const std::string line = buffer.substr(0, size - 1);
    buffer.erase(0, size);
    std::cout << answer(endpoint, line) << std::endl;
  }
  io.stop();
}

}  // namespace
}  // namespace firebreak::testing_support

int main(int argc, char** argv) {
  using namespace firebreak;
  ::signal(SIGPIPE, SIG_IGN);
  const char* build = std::getenv("FIREBREAK_BUILD_DIR");
  testing_support::NativeEndpoint::Options options;
  options.agent = std::string(build != nullptr ? build : ".") + "/firebreak-agent";
  options.dir = std::filesystem::temp_directory_path() / ("fb-endpoint-" + sys::random_hex(4));
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--plain") options.tls = false;
    if (word == "--limits") options.limits = true;
    if (word == "--connections-of-tenant" && i + 1 < argc)
      options.connections_of_tenant = static_cast<std::size_t>(std::atoi(argv[++i]));
    if (word == "--hook-port" && i + 1 < argc) {
      options.hooks.port = static_cast<std::uint16_t>(std::atoi(argv[++i]));
      options.hooks[core::Hook::run].enabled = true;
    }
  }
  if (!sys::mkdirs(options.dir, 0700)) return 1;
  const std::string dir = options.dir;
  {
    net::asio::io_context io(1);
    testing_support::NativeEndpoint endpoint(io.get_executor(), std::move(options));
    net::TaskGroup tasks(io.get_executor());
    tasks.spawn("serve", testing_support::serve(io, endpoint));
    io.run();
  }
  (void)sys::remove_tree(dir);
  return 0;
}
