// A whole server in the process of its test: a fake host with real agents, a clock that the test
// moves, and requests over HTTP. Nothing here sleeps.
#include <filesystem>

#include <gmock/gmock.h>

#include "base/json.h"
#include "control/native_agents.h"
#include "net/http_client.h"
#include "server/server.h"
#include "store/sqlite/sqlite_store.h"

namespace firebreak::testing_support {
namespace {

using testing::HasSubstr;

constexpr auto kTick = std::chrono::milliseconds(1000);

class FakeHosting final : public server::Hosting {
 public:
  explicit FakeHosting(machine::Engine& engine) : engines_(engine) {}
  const machine::Engines& engines() const override { return engines_; }
  egress::Networks* networks() const override { return nullptr; }
  Result<> keep_bases(const std::string&) override { return {}; }
  void close() override {}

 private:
  machine::Engines engines_;
};

class InProcess : public testing::Test {
 protected:
  InProcess() {
    std::filesystem::create_directories(dir_);
    host_.guests = &agents_;
    config_.data_dir = dir_;
    config_.guest_dir = dir_;
    config_.listen = config_.endpoint_listen = "127.0.0.1:0";
    config_.guest_ca = "none";
    config_.python_image = false;
    config_.networks = false;
    config_.pool_least = config_.pool_most = 0;
    config_.tick_ms = kTick.count();
    start();
    make_image();
  }
  ~InProcess() override {
    stop();
    std::filesystem::remove_all(dir_);
  }

  void start() {
    auto addresses = server::take_addresses(config_);
    ASSERT_TRUE(addresses) << addresses.error().text();
    pool_.emplace(1);
    server_.emplace(
        config_, *std::move(addresses),
        server::Surroundings{
            .io = io_,
            .pool = *pool_,
            .clock = clock_,
            .pauses = clock_,
            .log = log_,
            .metrics = metrics_,
            .steps = control::Steps(),
            .open_store =
                [this] { return store::open_sqlite_store({.path = dir_ + "/firebreak.db"}); },
            .open_hosting = [this]() -> Result<std::unique_ptr<server::Hosting>> {
              return std::make_unique<FakeHosting>(engine_);
            }});
    const auto opened = server_->open();
    ASSERT_TRUE(opened) << opened.error().text();
    ended_ = false;
    url_.clear();
    server_->start([this](const server::Listeners& listeners) { url_ = listeners.url(); },
                   [this] { ended_ = true; });
    ASSERT_TRUE(until([this] { return ended_ || !url_.empty(); }));
    ASSERT_TRUE(server_->outcome()) << server_->outcome().error().text();
    const auto text = sys::read_file(dir_ + "/credentials.json");
    key_ = parse_json_object(*text)->at("apiKey").as_string().c_str();
  }
  void stop() {
    server_->stop();
    EXPECT_TRUE(until([this] { return ended_; }));
    server_.reset();
  }

  void make_image() {
    const core::Image image{.id = core::ImageId("image-a"),
                            .tenant = core::kSystemTenant,
                            .name = "a",
                            .state = core::ImageState::created};
    const core::ImageVersion version{.image = image.id,
                                     .number = 1,
                                     .state = core::VersionState::successful,
                                     .active = true,
                                     .memory_mib = 512,
                                     .snapshot = "a"};
    bool made = false;
    const auto write = [](store::Database& db, core::Image i, core::ImageVersion v,
                          bool& done) -> net::Task<void> {
      const auto written = co_await db.run([&](store::Store& store) -> Result<> {
        FB_TRY(store.create_image(i));
        return store.create_version(v);
      });
      EXPECT_TRUE(written) << written.error().text();
      done = true;
    };
    tasks_.spawn("write", write(server_->storage().db(), image, version, made));
    EXPECT_TRUE(until([&] { return made; }));
  }

  // Lets the server work; time stands still.
  bool until(const std::function<bool()>& condition) {
    const Deadline deadline = Deadline::in(std::chrono::seconds(20));
    io_.restart();
    while (!condition() && !deadline.passed()) io_.run_one_for(std::chrono::milliseconds(10));
    return condition();
  }

  struct Answer {
    int status = 0;
    json::object body;
  };
  Answer call(const std::string& method, const std::string& target, const std::string& body = "") {
    std::optional<Answer> answer;
    const auto ask = [](std::string url, net::HttpCall request,
                        std::optional<Answer>& into) -> net::Task<void> {
      const Deadline soon = Deadline::in(std::chrono::seconds(20));
      auto stream = co_await net::connect_url(url, "", soon);
      EXPECT_TRUE(stream) << stream.error().text();
      if (!stream) co_return;
      const auto reply = co_await net::http_call(**stream, request, soon);
      EXPECT_TRUE(reply) << reply.error().text();
      if (!reply) co_return;
      auto parsed = parse_json_object(reply->body);
      into = Answer{reply->status, parsed ? *parsed : json::object()};
    };
    net::HttpCall request{.method = method, .target = target, .host = "localhost", .body = body};
    request.headers.push_back({"authorization", "Bearer " + key_});
    request.headers.push_back({"connection", "close"});
    if (!body.empty()) request.headers.push_back({"content-type", "application/json"});
    tasks_.spawn("call", ask(url_, std::move(request), answer));
    EXPECT_TRUE(until([&] { return answer.has_value(); }));
    return answer.value_or(Answer());
  }

  std::string launch(const std::string& more = "") {
    const Answer made = call("POST", "/v1/microvms", R"({"image":"a")" + more + "}");
    EXPECT_EQ(made.status / 100, 2) << json::serialize(made.body);
    const json::value* id = made.body.if_contains("id");
    return id == nullptr ? "" : std::string(id->as_string());
  }
  std::string state(const std::string& id) {
    const Answer got = call("GET", "/v1/microvms/" + id);
    const json::value* state = got.body.if_contains("state");
    return state == nullptr ? json::serialize(got.body) : std::string(state->as_string());
  }
  // So much time passes, and the server gets to do what is due.
  void pass(core::Millis span) {
    clock_.pass(span);
    clock_.pass(kTick);
  }
  bool reaches(const std::string& id, const std::string& wanted) {
    return until_asked([&] { return state(id) == wanted; });
  }
  // Turns of the ticker pass meanwhile.
  bool until_asked(const std::function<bool()>& condition) {
    for (int i = 0; i < 100; ++i) {
      if (condition()) return true;
      clock_.pass(kTick);
    }
    return condition();
  }

  std::string dir_ = "/dev/shm/fb-server-" + sys::random_hex(8);
  server::ServerConfig config_;
  control::SetClock clock_;
  control::FakeHost host_;
  NativeAgents agents_;
  control::FakeEngine engine_{host_};
  UniqueFd null_{::open("/dev/null", O_WRONLY | O_CLOEXEC)};
  obs::Log log_{null_.get(), obs::LogFormat::text, obs::Level::error};
  obs::Metrics metrics_;
  net::asio::io_context io_;
  std::optional<net::asio::thread_pool> pool_;
  std::optional<server::Server> server_;
  net::TaskGroup tasks_{io_.get_executor()};
  std::string url_;
  std::string key_;
  bool ended_ = false;
};

TEST_F(InProcess, OneThatDoesNothingForTenMinutesIsSuspended) {
  const std::string id = launch(R"(,"idle":{"maxIdleSeconds":600,"suspendedSeconds":3600})");
  EXPECT_EQ(state(id), "RUNNING");
  pass(core::Seconds(500));
  EXPECT_EQ(state(id), "RUNNING");
  pass(core::Seconds(200));
  EXPECT_TRUE(reaches(id, "SUSPENDED")) << state(id);
  EXPECT_TRUE(host_.suspended.contains(id));
  pass(core::Seconds(3700));
  EXPECT_TRUE(reaches(id, "TERMINATED")) << state(id);
  EXPECT_TRUE(host_.suspended.empty());
}

TEST_F(InProcess, OneIsTerminatedWhenItsTimeIsOverAlsoByTheNextServer) {
  const std::string id = launch(R"(,"maxDurationSeconds":7200)");
  stop();
  EXPECT_TRUE(host_.machines.contains(id)) << "it runs on without a server";
  pass(core::Seconds(3600));
  start();
  EXPECT_EQ(state(id), "RUNNING");
  pass(core::Seconds(3700));
  EXPECT_TRUE(reaches(id, "TERMINATED")) << state(id);
  EXPECT_TRUE(host_.machines.empty());
}

TEST_F(InProcess, ATenantLaunchesSoManyASecondAndIsToldWhenToComeAgain) {
  std::string tenant;
  for (const core::Tenant& each : server_->storage().keys().tenants())
    if (each.name == "default") tenant = each.id.str();
  const Answer set = call("PUT", "/v1/tenants/" + tenant + "/limits", R"({"launchesPerSecond":2})");
  ASSERT_EQ(set.status, 200) << json::serialize(set.body);
  const std::string body = R"({"image":"a"})";
  int made = 0;
  int refused = 0;
  for (int i = 0; i < 6; ++i) {
    const Answer answer = call("POST", "/v1/microvms", body);
    if (answer.status / 100 == 2)
      ++made;
    else if (answer.status == 429)
      ++refused;
  }
  EXPECT_GT(made, 0);
  EXPECT_GT(refused, 0);
  EXPECT_EQ(made + refused, 6);
  // Nobody waited: the clock is moved.
  clock_.pass(core::Seconds(1));
  EXPECT_EQ(call("POST", "/v1/microvms", body).status / 100, 2);
}

TEST_F(InProcess, AMachineThatCannotBeRemovedIsTriedAgainAsTimePasses) {
  const std::string id = launch();
  int refusals = 0;
  host_.before = [&](std::string_view call, const std::string&) -> Result<> {
    if (call != "terminate" || refusals >= 5) return {};
    ++refusals;
    return fail(Code::internal, "not now");
  };
  std::optional<Result<core::Microvm>> asked;
  const auto end = [](control::Supervisor& supervisor, core::TenantId tenant, core::MicrovmId vm,
                      std::optional<Result<core::Microvm>>& into) -> net::Task<void> {
    into = co_await supervisor.terminate(tenant, vm, Deadline::in(std::chrono::seconds(20)));
  };
  const control::LivePtr vm = server_->supervisor().live().find(core::MicrovmId(id));
  ASSERT_TRUE(vm);
  tasks_.spawn("end", end(server_->supervisor(), vm->tenant(), vm->id(), asked));
  ASSERT_TRUE(until([&] { return refusals == 1; }));
  for (int i = 0; i < 200 && !asked; ++i) {
    (void)until([&] { return true; });
    io_.poll();
    clock_.pass(std::chrono::milliseconds(250));
  }
  ASSERT_TRUE(asked);
  EXPECT_FALSE(*asked) << "three times in vain";
  EXPECT_EQ(state(id), "TERMINATING");
  for (int i = 0; i < 200 && state(id) != "TERMINATED"; ++i) pass(kTick);
  EXPECT_EQ(state(id), "TERMINATED");
  EXPECT_EQ(refusals, 5);
}

}  // namespace
}  // namespace firebreak::testing_support
