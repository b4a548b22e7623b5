// Builds beside each other and what is left of them: limits, the queue, cancels, removal.
#include <chrono>
#include <filesystem>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sys.h"
#include "base/text.h"
#include "server/build_fixture.h"
#include "support/environment.h"

namespace firebreak::testing_support {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

// The head of an upload whose body does not come.
UniqueFd begin_upload(const ServerProcess& server, const std::string& image) {
  const std::string port = server.url().substr(server.url().rfind(':') + 1);
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(parse_u64(port).value_or(0)));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  const std::string head = "POST /v1/images/" + image +
                           "/builds HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer " +
                           server.api_key() + "\r\ncontent-length: 100000\r\n\r\n";
  EXPECT_TRUE(sys::write_all(socket.get(), head));
  return socket;
}

TEST_F(Build, UploadsCountAsBuilds) {
  const Context wrong("FROM firebreak/debian:12\nCOPY missing /\n");
  std::vector<UniqueFd> uploads;
  for (int i = 0; i < 5; ++i) uploads.push_back(begin_upload(*server, "up" + std::to_string(i)));
  std::string said;
  for (int i = 0; i < 100 && !said.contains("builds under way"); ++i) {
    said = build("sixth", wrong).err;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_THAT(said, HasSubstr("builds under way"));
  uploads.clear();
  for (int i = 0; i < 100 && !said.contains("missing"); ++i) {
    said = build("sixth", wrong).err;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_THAT(said, HasSubstr("'missing' is not in the context"));
}

TEST_F(Build, AMisspeltParameterIsRefused) {
  const Answer refused = server->call("POST", "/v1/images/x/builds?nocache=1", json::object{});
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.text, HasSubstr("nocache"));
}

// What the API answers to a build: the status, then the body.
constexpr const char* kUpload = R"(import http.client, sys
url, key, path = sys.argv[1:]
api = http.client.HTTPConnection(url.split("//")[1])
api.request("POST", path, sys.stdin.buffer.read(), {"authorization": "Bearer " + key})
answer = api.getresponse()
print(answer.status, answer.read().decode())
)";

TEST_F(Build, VersionsAreMadeOnlyForChangesAndGoWhenNobodyUsesThem) {
  const Context context("FROM firebreak/debian:12\n");
  const auto upload = [&](const std::string& query, const std::string& change) {
    context.put("unused", change);
    const std::string tar = "tar -C " + context.path() + " -c . | \"$@\"";
    const auto done =
        server->run({"/bin/sh", "-c", tar, "sh", "/usr/bin/python3", "-c", kUpload, server->url(),
                     server->api_key(), "/v1/images/versions/builds" + query});
    server->wait_for("/v1/images/versions/versions/latest", "state", "SUCCESSFUL");
    return done.out;
  };
  const std::string limits =
      "/v1/tenants/" + server->call("GET", "/v1/tenant").text_of("accountId") + "/limits";
  server->call("PUT", limits, json::object{{"versionsPerImage", 2}});
  EXPECT_THAT(upload("", "a"), AllOf(HasSubstr("202 "), HasSubstr("\"version\":\"1.0\"")));
  EXPECT_THAT(upload("", "a"),
              AllOf(HasSubstr("200 "), HasSubstr("\"version\":\"1.0\""),
                    HasSubstr("\"state\":\"SUCCESSFUL\""), HasSubstr("\"unchanged\":true")));
  EXPECT_THAT(upload("?noCache=1", "a"), HasSubstr("\"version\":\"2.0\""));
  const std::string id =
      server->call("POST", "/v1/microvms", json::object{{"image", "versions:1.0"}}).text_of("id");
  EXPECT_THAT(upload("", "b"), AllOf(HasSubstr("429 "), HasSubstr("2 of 2 versions"),
                                     HasSubstr("firebreak image prune versions")));
  EXPECT_THAT(upload("?pruneVersions=1", "b"), AllOf(HasSubstr("429 "), HasSubstr("microVMs use")));
  server->call("DELETE", "/v1/microvms/" + id);
  EXPECT_THAT(upload("?pruneVersions=1", "b"),
              AllOf(HasSubstr("202 "), HasSubstr("\"version\":\"3.0\""),
                    HasSubstr("\"removed\":[\"1.0\"]")));
  const Answer pruned = server->call("POST", "/v1/images/versions/prune");
  EXPECT_EQ(pruned.text_of("removed"), "[\"2.0\"]") << pruned.text;
  EXPECT_EQ(server->call("POST", "/v1/images/versions/prune").text_of("removed"), "[]");
  EXPECT_EQ(server->call("POST", "/v1/images/none/prune").status, 404);
  server->call("PUT", limits, json::object{{"versionsPerImage", 50}});
}

TEST_F(Build, AnApplicationThatEndsIsNoticedBeforeItsHookTimesOut) {
  const Context ends("FROM firebreak/debian:12\nCMD [\"sh\", \"-c\", \"echo gone; exit 7\"]\n");
  const auto ended = build("ends-early", ends,
                           {"--hooks", R"({"port":9000,"ready":{"enabled":true,"timeout":3600}})"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err,
              HasSubstr("the application ended with exit code 7 before it was ready: gone; "));
}

TEST_F(Build, AnImageMayBeRemovedUnderABuildThatStandsOnIt) {
  ASSERT_EQ(build("under", Context("FROM firebreak/debian:12\nRUN echo below > /below\n")).status,
            0);
  const std::string snapshots = server->data_dir() + "/snapshots";
  const std::string held = server->call("GET", "/v1/images/under").text_of("id") + "-1";
  ASSERT_TRUE(sys::exists(snapshots + "/" + held));
  const Context above("FROM under\nRUN echo begun; sleep 5\nRUN cp /below /above\n");
  std::thread remover([&] {
    for (int i = 0; i < 600; ++i) {
      if (server->cli({"image", "logs", "over"}).out.contains("[1/")) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    EXPECT_EQ(server->cli({"image", "rm", "under"}).status, 0);
  });
  const auto made = build("over", above);
  remover.join();
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(in_clone("over", "cat /above"), "below\n");
  EXPECT_FALSE(sys::exists(snapshots + "/" + held));
}

TEST_F(Build, AnImageIsRemovedOrLaunchedNeverBoth) {
  const Context context("FROM firebreak/debian:12\n");
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(build("racing", context).status, 0);
    std::vector<ServerProcess::Output> launched(4);
    std::vector<std::thread> threads;
    for (ServerProcess::Output& one : launched)
      threads.emplace_back([&one] { one = server->cli({"run", "racing"}); });
    // Another moment of the launches each time.
    std::this_thread::sleep_for(std::chrono::milliseconds(20 * round));
    const bool removed = server->cli({"image", "rm", "racing"}).status == 0;
    for (std::thread& thread : threads) thread.join();
    for (const ServerProcess::Output& one : launched) {
      EXPECT_FALSE(removed && one.status == 0) << one.out;
      if (one.status == 0) EXPECT_EQ(server->cli({"kill", trimmed(one.out)}).status, 0);
    }
    if (!removed) EXPECT_EQ(server->cli({"image", "rm", "racing"}).status, 0);
  }
}

TEST_F(Build, CanBeCancelledWhileItsFirstCloneIsAsked) {
  const Context context(
      "FROM firebreak/python:3.11\nCOPY app.py /\nCMD [\"python3\", \"/app.py\"]\n");
  context.put("app.py", R"(import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.send_response(503)
        self.end_headers()
http.server.HTTPServer(("", 9000), Handler).serve_forever()
)");
  std::thread canceller([&] {
    for (int i = 0; i < 600; ++i) {
      if (server->cli({"image", "logs", "unfit"}).out.contains("snapshot taken")) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    std::this_thread::sleep_for(std::chrono::seconds(2));
    EXPECT_EQ(server->cli({"image", "cancel", "unfit"}).status, 0);
  });
  const auto cancelled = build(
      "unfit", context, {"--hooks", R"({"port":9000,"validate":{"enabled":true,"timeout":3600}})"});
  canceller.join();
  EXPECT_THAT(cancelled.err, HasSubstr("the build was cancelled"));
  EXPECT_EQ(machines(), 0U);
}

std::size_t files_in(const std::string& directory) {
  const auto names = sys::list_dir(directory);
  return names ? names->size() : 0;
}

// A guest directory as the build makes it: links to where the files really are.
void link_guest(const std::string& directory) {
  const std::string real = environment_or_die("FIREBREAK_GUEST_DIR");
  fs::create_directories(directory);
  for (const char* name : {"vmlinux", "initramfs.cpio", "base.ext4", "debian.ext4", "scratch.ext4"})
    fs::create_symlink(fs::canonical(real + "/" + name), directory + "/" + name);
}

TEST(BuildAndServer, ImagesOutliveTheGuestDirectoryTheyWereMadeFrom) {
  ServerProcess server;
  server.set_options({"--python-image=0", "--networks=0"});
  const std::string first = server.data_dir() + "/guest";
  link_guest(first);
  server.set_guest_dir(first);
  ASSERT_TRUE(server.start()) << server.log();
  ASSERT_EQ(server.call("POST", "/v1/images", json::object{{"name", "own"}}).status, 201);
  const std::string id =
      server.call("POST", "/v1/microvms", json::object{{"image", "own"}}).text_of("id");
  ASSERT_EQ(server.call("POST", "/v1/microvms/" + id + "/suspend").status, 200);
  ASSERT_EQ(server.stop(), 0);
  fs::remove_all(first);
  const std::string second = server.data_dir() + "/moved";
  link_guest(second);
  server.set_guest_dir(second);
  ASSERT_TRUE(server.start()) << server.log();
  const auto ran = [&](const std::string& microvm) {
    return server.call("POST", "/v1/microvms/" + microvm + "/exec",
                       json::object{{"shell", "cat /etc/debian_version >/dev/null && echo runs"}});
  };
  const Answer again = server.call("POST", "/v1/microvms", json::object{{"image", "own"}});
  ASSERT_EQ(again.status, 201) << again.text;
  for (const std::string& microvm : {id, again.text_of("id")})
    EXPECT_EQ(ran(microvm).text_of("stdout"), "runs\n") << ran(microvm).text;
  EXPECT_EQ(server.cli({"check"}).out, "0 leaks\n");

  // Without the base, the check and the launch say so.
  for (const std::string& microvm : {id, again.text_of("id")})
    server.call("DELETE", "/v1/microvms/" + microvm);
  ASSERT_EQ(server.stop(), 0);
  const std::string bases = server.data_dir() + "/bases";
  if (files_in(bases) == 0) GTEST_SKIP() << "data directory and guest files cannot be linked";
  fs::remove(second + "/base.ext4");
  fs::remove_all(bases);
  ASSERT_TRUE(server.start()) << server.log();
  const auto leaks = server.cli({"check"});
  EXPECT_EQ(leaks.status, 1);
  EXPECT_THAT(leaks.out, AllOf(HasSubstr("base " + bases), HasSubstr("stand on it")));
  const Answer refused = server.call("POST", "/v1/microvms", json::object{{"image", "own"}});
  EXPECT_EQ(refused.status, 502) << refused.text;
  EXPECT_THAT(refused.text_of("message"), HasSubstr("is gone; put it back"));
}

TEST(BuildAndServer, WhatACrashLeftOfARemovedImageIsGoneAfterTheRestart) {
  ServerProcess server;
  server.set_options({"--python-image=0", "--networks=0"});
  server.crash_at("image.removed");
  ASSERT_TRUE(server.start()) << server.log();
  const Context context("FROM firebreak/debian:12\nRUN echo one > /one\n");
  for (const char* name : {"left:1.0\n", "left:2.0\n"}) {
    context.put("unused", name);
    const auto made = server.cli({"image", "build", "left", context.path()});
    ASSERT_EQ(made.out, name) << made.err;
  }
  // The second has taken the first one's snapshot, and says what that occupies.
  EXPECT_EQ(files_in(server.data_dir() + "/snapshots"), 1U);
  const Answer second = server.call("GET", "/v1/images/left/versions/2.0");
  EXPECT_GT(second.object().at("diskBytes").to_number<std::uint64_t>(), 0U) << second.text;
  const Answer image = server.call("GET", "/v1/images/left");
  EXPECT_EQ(image.text_of("diskBytes"), second.text_of("diskBytes"));
  const Answer list = server.call("GET", "/v1/images");
  EXPECT_EQ(list.object().at("items").as_array().at(0).at("diskBytes"),
            image.object().at("diskBytes"));
  const Answer cache = server.call("GET", "/v1/build-cache");
  EXPECT_GT(cache.object().at("layerBytes").to_number<std::uint64_t>(), 0U) << cache.text;

  EXPECT_EQ(files_in(server.data_dir() + "/builds"), 2U);
  EXPECT_EQ(server.call("DELETE", "/v1/images/left/versions/1.0").status, 200);
  EXPECT_EQ(files_in(server.data_dir() + "/builds"), 1U);
  EXPECT_EQ(files_in(server.data_dir() + "/snapshots"), 1U);

  (void)server.cli({"image", "rm", "left"});
  ASSERT_TRUE(server.wait_end(std::chrono::seconds(60))) << "the step was not reached";
  EXPECT_EQ(files_in(server.data_dir() + "/snapshots"), 1U);
  // And layers of a tenant that is gone, which had no cache mounts.
  const std::string gone = server.data_dir() + "/layers/000000000042";
  ASSERT_TRUE(sys::mkdirs(gone + "/layers", 0700));
  ASSERT_TRUE(sys::mkdirs(gone + "/index", 0700));
  ASSERT_TRUE(sys::replace_file(gone + "/layers/abc", "layer"));
  ASSERT_TRUE(sys::replace_file(gone + "/index/key", R"({"layer":"abc","below":"base"})"));
  ASSERT_TRUE(server.start()) << server.log();
  EXPECT_EQ(files_in(server.data_dir() + "/snapshots"), 0U);
  EXPECT_EQ(files_in(server.data_dir() + "/builds"), 0U);
  EXPECT_EQ(files_in(gone + "/layers"), 0U);
}

TEST(BuildAndServer, ABuildThatWaitsCanBeCancelled) {
  ServerProcess server;
  server.set_options({"--python-image=0", "--networks=0", "--parallel-builds=1"});
  ASSERT_TRUE(server.start()) << server.log();
  const Context context("FROM firebreak/debian:12\nRUN echo begun; sleep 600\n");
  std::thread first([&] {
    (void)server.run({ServerProcess::program(), "--data-dir", server.data_dir(), "image", "build",
                      "first", context.path()});
  });
  server.wait_for("/v1/images/first/versions/1.0", "state", "IN_PROGRESS");
  std::thread second([&] {
    (void)server.run({ServerProcess::program(), "--data-dir", server.data_dir(), "image", "build",
                      "second", context.path()});
  });
  server.wait_for("/v1/images/second/versions/1.0", "state", "PENDING");
  EXPECT_EQ(server.call("POST", "/v1/images/second/versions/1.0/cancel").status, 200);
  const Answer cancelled = server.wait_for("/v1/images/second/versions/1.0", "state", "FAILED");
  EXPECT_THAT(cancelled.text_of("stateReason"), HasSubstr("the build was cancelled"));
  EXPECT_EQ(server.call("GET", "/v1/images/first/versions/1.0").text_of("state"), "IN_PROGRESS");
  EXPECT_EQ(server.call("POST", "/v1/images/first/versions/1.0/cancel").status, 200);
  first.join();
  second.join();
}

}  // namespace
}  // namespace firebreak::testing_support
