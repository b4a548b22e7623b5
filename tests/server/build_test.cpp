// Images built from Dockerfiles, through the command line and a real server, in real machines.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "server/build_fixture.h"

namespace firebreak::testing_support {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

constexpr const char* kServer = R"(import http.server, os, signal, sys
def stop(number, frame):
    print("told to stop", flush=True)
    os._exit(0)
signal.signal(signal.SIGUSR1, stop)
started = os.urandom(8).hex()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write((os.environ["GREETING"] + " " + os.getcwd() + " " + str(os.getpid())).encode())
http.server.HTTPServer(("", 8090), Handler).serve_forever()
)";

TEST_F(Build, AnApplicationIsAliveInEveryClone) {
  const Context context(R"(FROM python:3.11-slim
ARG WHO=nobody
ENV GREETING="hello-$WHO"
WORKDIR /srv/app
COPY server.py data.txt ./
RUN echo "$GREETING" > built; cat data.txt
RUN useradd -m app && chown app built
USER app
EXPOSE 8090
STOPSIGNAL SIGUSR1
CMD ["python3", "server.py"]
)");
  context.put("server.py", kServer);
  context.put("data.txt", "first data\n");
  const auto made = build("web", context, {"--build-arg", "WHO=world"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(made.out, "web:1.0\n");
  EXPECT_THAT(made.err, AllOf(HasSubstr("python:3.11-slim is taken as firebreak/python:3.11"),
                              HasSubstr("first data"), HasSubstr("waiting for the application")));
  const std::string fetch =
      "python3 -c 'import urllib.request; "
      "print(urllib.request.urlopen(\"http://127.0.0.1:8090\").read().decode())'; "
      "cat /srv/app/built; stat -c %U /srv/app/built /proc/1; id -un; pwd";
  EXPECT_EQ(in_clone("web", fetch),
            "hello-world /srv/app 1\nhello-world\napp\napp\napp\n/srv/app\n");
  const std::string id = trimmed(server->cli({"run", "web"}).out);
  EXPECT_EQ(server->cli({"exec", "--user", "root", id, "--", "id", "-un"}).out, "root\n");
  // What EXPOSE names first is where the endpoint leads.
  const Answer token = server->call("POST", "/v1/microvms/" + id + "/tokens", json::object{});
  EXPECT_EQ(token.text_of("ports"), "8090") << token.text;
  const Answer wide =
      server->call("POST", "/v1/microvms/" + id + "/tokens", json::object{{"ports", "*"}});
  EXPECT_EQ(wide.text_of("port"), "8090") << wide.text;
  const std::string url =
      "https://" + server->call("GET", "/v1/microvms/" + id).text_of("endpoint") + "/";
  constexpr const char* kAsk =
      "import ssl, sys, urllib.request as u\n"
      "ask = u.Request(sys.argv[1], headers={'x-aws-proxy-auth': sys.argv[3]})\n"
      "print(u.urlopen(ask, context=ssl.create_default_context(cafile=sys.argv[2])).read())";
  const auto asked =
      server->run({"/usr/bin/python3", "-c", kAsk, url, server->ca_file(), wide.text_of("token")});
  EXPECT_THAT(asked.out, HasSubstr("hello-world /srv/app 1")) << asked.err;
  server->cli({"kill", id});
  EXPECT_THAT(server->cli({"logs", id}).out, HasSubstr("told to stop"));

  // Nothing has changed: there is nothing to make.
  const auto same = build("web", context, {"--build-arg", "WHO=world"});
  ASSERT_EQ(same.status, 0) << same.err;
  EXPECT_EQ(same.out, "web:1.0\n");

  // Nothing that is used has changed: every step is cached, and so is the snapshot; no machine is
  // started.
  context.put("unused.txt", "not copied\n");
  const auto again = build("web", context, {"--build-arg", "WHO=world"});
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(again.out, "web:2.0\n");
  EXPECT_THAT(again.err, AllOf(HasSubstr("is the same: taken"), Not(HasSubstr("booting")),
                               Not(HasSubstr("first data"))));
  const auto history = server->cli({"image", "history", "web:2.0", "--json"});
  const json::value steps = json::parse(history.out);
  EXPECT_EQ(steps.as_array().size(), 5U);
  for (const json::value& step : steps.as_array()) EXPECT_TRUE(step.at("cached").as_bool());

  // One file changed: what is before its COPY stays.
  context.put("data.txt", "second data\n");
  const auto third = build("web", context, {"--build-arg", "WHO=world"});
  ASSERT_EQ(third.status, 0) << third.err;
  EXPECT_THAT(third.err, HasSubstr("second data"));
  const json::value changed = json::parse(server->cli({"image", "history", "web", "--json"}).out);
  std::vector<bool> cached;
  for (const json::value& step : changed.as_array()) cached.push_back(step.at("cached").as_bool());
  EXPECT_EQ(cached, (std::vector<bool>{true, true, false, false, false}));

  // The snapshot of two versions goes with the second of them.
  EXPECT_EQ(server->cli({"image", "rm", "web:1.0"}).status, 0);
  EXPECT_EQ(in_clone("web:2.0", "cat /srv/app/data.txt"), "first data\n");
}

TEST_F(Build, StagesMountsAndCopiesGiveTheTreeThatIsMeant) {
  const Context context(R"(FROM firebreak/python:3.11 AS made
RUN useradd -u 1234 app
WORKDIR /out
RUN --mount=type=bind,source=src,target=/in --mount=type=tmpfs,target=/t \
    cp -r /in/. . && touch /t/gone && chown app a.txt && ln a.txt hard
RUN --mount=type=cache,target=/cache echo kept > /cache/x
RUN --mount=type=cache,target=/cache cp /cache/x from-cache
COPY --chown=app src/*.txt /chowned/
COPY --chmod=0600 src/a.txt /renamed
COPY <<EOF /inline
text of $HOME_OF_NOBODY the Dockerfile
EOF
RUN <<EOF
#!/usr/bin/python3
open("/by-python", "w").write("script")
EOF
RUN sleep 1000 & echo left > /left

FROM scratch AS tiny
COPY --from=made /out /o
COPY --from=made /out/a.txt /x/

FROM made
COPY --from=tiny /o /copied
COPY --from=tiny /x/a.txt /one
COPY --from=0 /out/*.txt /glob/
)");
  context.put("src/a.txt", "a\n");
  context.put("src/sub/b", "b\n", 0751);
  context.put(".dockerignore", "src/secret\n");
  context.put("src/secret", "not for the image\n");
  const auto made = build("tree", context);
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(
      in_clone("tree", R"(cd /; find out copied chowned glob x one renamed inline by-python left \
      -printf '%p %y %m %U:%G\n' 2>/dev/null | sort; cat inline one by-python out/from-cache; ls -d in t cache 2>/dev/null;
      pgrep -c sleep || true)"),
      R"(by-python f 644 0:0
chowned d 755 1234:1234
chowned/a.txt f 644 1234:1234
copied d 755 0:0
copied/a.txt f 644 1234:0
copied/from-cache f 644 0:0
copied/hard f 644 1234:0
copied/sub d 755 0:0
copied/sub/b f 751 0:0
glob d 755 0:0
glob/a.txt f 644 1234:0
inline f 644 0:0
left f 644 0:0
one f 644 1234:0
out d 755 0:0
out/a.txt f 644 1234:0
out/from-cache f 644 0:0
out/hard f 644 1234:0
out/sub d 755 0:0
out/sub/b f 751 0:0
renamed f 600 0:0
text of  the Dockerfile
a
scriptkept
0
)");
}

TEST_F(Build, SecretsReachNeitherDiskNorSnapshot) {
  // Put together in the guest only: the Dockerfile itself is kept, in the version's record.
  const Context context(R"(FROM firebreak/python:3.11
RUN --mount=type=secret,id=token --mount=type=secret,id=other,env=OTHER \
    python3 -c 'import os; a = open("/run/secrets/token").read(); print(len(a), len(os.environ["OTHER"]))'
RUN python3 -c 'print("written".upper() + "CANARY" * 2)' > /etc/kept; sync
RUN test ! -e /run/secrets && test -z "$OTHER"
)");
  Context secrets("");
  const std::string canary = "canary-" + sys::random_hex(16);
  secrets.put("token", canary);
  ::setenv("FB_TEST_OTHER", (canary + "-in-env").c_str(), 1);
  const auto made = build("secret", context,
                          {"--secret", "id=token,src=" + secrets.path() + "/token", "--secret",
                           "id=other,env=FB_TEST_OTHER"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.err, HasSubstr("39 46"));
  EXPECT_FALSE(holds(server->data_dir(), canary));
  EXPECT_TRUE(holds(server->data_dir(), "WRITTENCANARYCANARY")) << "the search finds nothing";
  const auto missing = build("secret", context, {"--no-cache"});
  EXPECT_NE(missing.status, 0);
}

// A build by another tenant; what it printed.
std::string build_as(ServerProcess& server, const std::string& key, const Context& context) {
  const std::string upload = "tar -C " + context.path() + " -c Dockerfile | curl -sS -o " +
                             context.path() + "/answer -H 'authorization: Bearer " + key +
                             "' --data-binary @- " + server.url() + "/v1/images/other/builds";
  EXPECT_EQ(std::system(upload.c_str()), 0);
  return server.call_as(key, "GET", "/v1/images/other/versions/latest/log?follow=1").text;
}

TEST_F(Build, ACacheMountIsKeptForLaterBuildsOfItsTenantAndForNothingElse) {
  // Put together in the guest only: the Dockerfile is kept, in the version's record.
  const Context context(R"--(FROM firebreak/debian:12 AS first
ARG NUMBER
RUN --mount=type=cache,target=/c <<EOF
  ls -A /c
  printf 'cached%s-%s\n' -mark $NUMBER >> /c/marks
  mkdir -p /c/deep && ln -sf ../marks /c/deep/link && chmod 0711 /c && chown 77:78 /c /c/marks
EOF
FROM first
RUN --mount=type=cache,target=/d,id=/c stat -c '%u:%g %a' /d /d/marks && cat /d/deep/link
RUN --mount=type=cache,target=/c,uid=5 echo "another: $(stat -c '%u %a' /c) $(ls -A /c)"
ARG NUMBER
RUN test ! -e /c && test "$NUMBER" != 1
)--");
  // Kept by the stage that ended well and by the one that did not.
  const auto failed = build("cached", context, {"--build-arg", "NUMBER=1"});
  ASSERT_NE(failed.status, 0);
  EXPECT_THAT(failed.err, AllOf(HasSubstr("77:78 711\n77:78 644\ncached-mark-1\n"),
                                HasSubstr("another: 5 755 \n"), HasSubstr("line 12")));
  const auto made = build("cached", context, {"--build-arg", "NUMBER=2", "--no-cache"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.err, AllOf(HasSubstr("deep\nmarks\n"), Not(HasSubstr("note: ")),
                              HasSubstr("77:78 711\n77:78 644\ncached-mark-1\ncached-mark-2\n")));

  // In neither layer nor snapshot.
  EXPECT_TRUE(holds(server->data_dir() + "/cache-mounts", "cached-mark-2"));
  EXPECT_FALSE(holds(server->data_dir() + "/layers", "cached-mark-"));
  EXPECT_FALSE(holds(server->data_dir() + "/snapshots", "cached-mark-"));
  EXPECT_EQ(in_clone("cached", "ls -d /c /d 2>/dev/null || echo none"), "none\n");

  const Answer tenant = server->call("POST", "/v1/tenants", json::object{{"name", "caching"}});
  const std::string account(tenant.object().at("accountId").as_string());
  const std::string key(tenant.object().at("key").at("apiKey").as_string());
  const Context foreign(
      "FROM firebreak/debian:12\n"
      "RUN --mount=type=cache,target=/c echo \"has: $(ls -A /c)\" && touch /c/mine && false\n");
  EXPECT_THAT(build_as(*server, key, foreign), HasSubstr("has: \n"));
  EXPECT_THAT(build_as(*server, key, foreign), HasSubstr("has: mine\n"));
  const std::string kept = server->data_dir() + "/cache-mounts/" + account;
  EXPECT_TRUE(sys::exists(kept));
  EXPECT_EQ(server->call("DELETE", "/v1/tenants/" + account).status, 200);
  EXPECT_FALSE(sys::exists(kept));
}

TEST_F(Build, TheBasesAreListed) {
  EXPECT_THAT(server->cli({"image", "bases"}).out,
              AllOf(HasSubstr("firebreak/debian:12 "), HasSubstr("firebreak/python:3.11 "),
                    HasSubstr("debian:bookworm-slim")));
  const json::value bases = json::parse(server->cli({"image", "bases", "--json"}).out);
  ASSERT_EQ(bases.as_array().size(), 2U);
  std::set<std::string> digests;
  for (const json::value& base : bases.as_array()) {
    EXPECT_TRUE(base.at("version").as_string().starts_with("12.")) << base;
    EXPECT_GT(base.at("diskBytes").to_number<std::uint64_t>(), 50U << 20);
    EXPECT_FALSE(base.at("aliases").as_array().empty());
    digests.insert(std::string(base.at("digest").as_string()));
  }
  EXPECT_EQ(digests.size(), 2U);
}

TEST_F(Build, WhatIsWrongIsRefusedBeforeAnyMachine) {
  struct Case {
    const char* dockerfile;
    const char* message;
  };
  for (const auto& [dockerfile, message] : {
           Case{"", "Dockerfile"},
           Case{"FROM firebreak/debian:12\nRUNN true\n", "Dockerfile:2"},
           Case{"FROM firebreak/debian:12\nCOPY missing /\n", "Dockerfile:2"},
           Case{"FROM nowhere/at:all\n", "--base-alias"},
           Case{"FROM firebreak/debian:12\nRUN --mount=type=ssh true\n", "ssh"},
       }) {
    const Context context(dockerfile);
    context.put("other", "x");
    const auto refused = build("wrong", context);
    EXPECT_NE(refused.status, 0);
    EXPECT_THAT(refused.err, HasSubstr(message)) << dockerfile;
  }
  EXPECT_THAT(server->cli({"image", "show", "wrong"}).err, HasSubstr("there is no image"));
  EXPECT_EQ(machines(), 0U);
}

TEST_F(Build, AContextThatIsHardToLookAtStopsNobodyElse) {
  // Links that only the last of many rules leaves out.
  const Context context("FROM firebreak/debian:12\nCOPY missing /\n");
  const std::string deep = context.path() + "/d/" + std::string(200, 'a');
  fs::create_directories(deep);
  for (int i = 0; i < 700; ++i) fs::create_symlink("/out", deep + "/" + std::to_string(i));
  std::string rules;
  for (int i = 0; i < 700; ++i) rules += "**/*a*a*a*a*a*a*" + std::to_string(i) + "x\n";
  context.put(".dockerignore", rules + "d\n");
  using Clock = std::chrono::steady_clock;
  std::atomic<bool> done = false;
  const auto began = Clock::now();
  std::thread upload([&] {
    EXPECT_NE(build("hard", context).status, 0);
    done = true;
  });
  Clock::duration longest{};
  while (!done) {
    const auto asked = Clock::now();
    EXPECT_EQ(server->call("GET", "/v1/images").status, 200);
    longest = std::max(longest, Clock::now() - asked);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  upload.join();
  EXPECT_LT(longest, (Clock::now() - began) / 2);
}

TEST_F(Build, AFailureSaysWhatAndLeavesNothing) {
  const Context context("FROM firebreak/debian:12\nRUN echo before; echo why >&2; exit 3\n");
  const auto failed = build("bad", context);
  EXPECT_EQ(failed.status, 1);
  EXPECT_THAT(failed.err, AllOf(HasSubstr("before"), HasSubstr("exit status 3: why")));
  const Answer version = server->call("GET", "/v1/images/bad/versions/1.0");
  EXPECT_EQ(version.text_of("state"), "FAILED");
  EXPECT_THAT(version.text_of("stateReason"),
              AllOf(HasSubstr("CONTAINER_BUILD_FAILED"), HasSubstr("line 2")));
  EXPECT_THAT(server->cli({"image", "logs", "bad"}).out, HasSubstr("why"));
  EXPECT_EQ(machines(), 0U);

  const Context large("FROM firebreak/debian:12\nRUN fallocate -l 9G /large\n");
  const auto full = build("large", large);
  EXPECT_EQ(full.status, 1);
  EXPECT_THAT(full.err, HasSubstr("DISK_STORAGE_FULL"));

  const Context ends("FROM firebreak/debian:12\nCMD [\"echo\", \"last words\"]\n");
  const auto ended = build("ends", ends);
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err,
              AllOf(HasSubstr("the application ended with exit code 0 before it was ready: last "
                              "words; "),
                    HasSubstr("leave CMD out for an image without an application")));
}

TEST_F(Build, CanBeCancelled) {
  const Context context("FROM firebreak/debian:12\nRUN echo begun; sleep 600\n");
  std::thread canceller([&] {
    for (int i = 0; i < 600; ++i) {
      if (server->cli({"image", "logs", "endless"}).out.contains("begun\n")) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    EXPECT_EQ(server->cli({"image", "cancel", "endless"}).status, 0);
  });
  const auto cancelled = build("endless", context);
  canceller.join();
  EXPECT_EQ(cancelled.status, 1);
  EXPECT_THAT(cancelled.err, HasSubstr("the build was cancelled"));
  EXPECT_EQ(machines(), 0U);
}

TEST_F(Build, StandsOnImagesOfItsTenantOnly) {
  const Context below(
      "FROM firebreak/debian:12\nENV FROM_BELOW=yes\nRUN echo below > /below\n"
      "ONBUILD RUN echo triggered > /triggered\n");
  ASSERT_EQ(build("below", below).status, 0);
  const Context above("FROM below:1.0\nRUN echo $FROM_BELOW $(cat /below) > /above\n");
  const auto made = build("above", above);
  ASSERT_EQ(made.status, 0) << made.err;
  // Its disk is its own.
  EXPECT_EQ(server->cli({"image", "rm", "below"}).status, 0);
  EXPECT_EQ(in_clone("above", "cat /above /triggered"), "yes below\ntriggered\n");

  const Answer tenant = server->call("POST", "/v1/tenants", json::object{{"name", "other"}});
  const std::string key(tenant.object().at("key").at("apiKey").as_string());
  const Context foreign("FROM above\n");
  const std::string answer = foreign.path() + "/answer";
  const std::string upload = "tar -C " + foreign.path() + " -c Dockerfile | curl -sS -o " + answer +
                             " -H 'authorization: Bearer " + key + "' --data-binary @- " +
                             server->url() + "/v1/images/foreign/builds";
  EXPECT_EQ(std::system(upload.c_str()), 0);
  EXPECT_THAT(*sys::read_file(answer), HasSubstr("there is no base image above"));
}

TEST(BuildAndServer, ABuildThatACrashCutIsFailedAndMadeAgain) {
  ServerProcess server;
  server.set_options({"--python-image=0", "--networks=0"});
  ASSERT_TRUE(server.start()) << server.log();
  const Context context(
      "FROM firebreak/debian:12\nRUN echo one > /one\nRUN echo begun; sleep 5; echo two > /two\n");
  std::thread killer([&] {
    for (int i = 0; i < 600; ++i) {
      if (server.cli({"image", "logs", "cut"}).out.contains("begun\n")) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    server.kill_hard();
  });
  const auto lost = server.cli({"image", "build", "cut", context.path()});
  killer.join();
  EXPECT_NE(lost.status, 0);
  ASSERT_TRUE(server.start()) << server.log();
  const Answer version = server.call("GET", "/v1/images/cut/versions/1.0");
  EXPECT_EQ(version.text_of("state"), "FAILED") << version.text;
  EXPECT_THAT(version.text_of("stateReason"), HasSubstr("build it again"));
  const auto again = server.cli({"image", "build", "cut", context.path()});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(again.out, "cut:2.0\n");
  EXPECT_THAT(again.err, HasSubstr("cached"));
  const Answer report = server.call("POST", "/v1/check");
  EXPECT_EQ(report.text_of("ok"), "true") << report.text;
}

TEST(BuildAndServer, ABuildMayNotTakeLongerThanItsLimit) {
  ServerProcess server;
  server.set_options({"--python-image=0", "--networks=0", "--build-seconds=12"});
  ASSERT_TRUE(server.start()) << server.log();
  const Context context("FROM firebreak/debian:12\nRUN sleep 600\n");
  const auto late = server.cli({"image", "build", "late", context.path()});
  EXPECT_EQ(late.status, 1);
  EXPECT_THAT(late.err, HasSubstr("longer than"));
  const Answer report = server.call("POST", "/v1/check");
  EXPECT_EQ(report.text_of("ok"), "true") << report.text;
}

TEST(BuildAndServer, ABuildWaitsUntilTheHostHasMemoryForIt) {
  ServerProcess server;
  server.set_options({"--python-image=0", "--networks=0", "--build-seconds=5", "--memory-mib=90"});
  ASSERT_TRUE(server.start()) << server.log();
  const Context context("FROM firebreak/debian:12\nRUN true\n");
  const auto late = server.cli({"image", "build", "late", context.path()});
  EXPECT_EQ(late.status, 1);
  EXPECT_THAT(late.err, AllOf(HasSubstr("waiting: the host has promised all its memory"),
                              Not(HasSubstr("[2/2]"))));
}

// The server of these cases has none.
TEST_F(Build, ARunThatAsksForANetworkWhereThereIsNoneIsRefusedWithTheRepair) {
  const Context context("FROM debian:bookworm\nRUN true\n");
  ASSERT_EQ(build("unconnected", context).status, 0);
  const Answer refused =
      server->call("POST", "/v1/microvms",
                   json::object{{"image", "unconnected"}, {"egress", "INTERNET_EGRESS"}});
  EXPECT_EQ(refused.status, 503) << refused.text;
  EXPECT_THAT(refused.text, testing::HasSubstr("firebreak doctor says why"));
  const Answer made = server->call("POST", "/v1/microvms", json::object{{"image", "unconnected"}});
  ASSERT_EQ(made.status, 201) << made.text;
  EXPECT_EQ(made.text_of("egress"), "NO_EGRESS");
  server->call("DELETE", "/v1/microvms/" + made.text_of("id"));
}

}  // namespace
}  // namespace firebreak::testing_support
