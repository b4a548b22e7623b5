// The front of the AWS façades with a service that fails.
#include "api/aws/aws_api.h"

#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/fake_exchange_test_support.h"
#include "control/fake_engine_test_support.h"
#include "control/supervisor.h"
#include "control/task_test_support.h"
#include "wire/crypto.h"

namespace firebreak::api {
namespace {

using testing::HasSubstr;
using testing::Not;

class ThrowingService final : public AwsService {
 public:
  net::Task<AwsResult<>> handle(AwsCall& call) override {
    if (call.target.segments.size() > 1) (void)co_await call.exchange.start(200, {}, call.deadline);
    throw std::out_of_range("a bug of ours");
  }
  AwsReply render(const AwsError& error, const std::string&) const override {
    return {.status = 500, .headers = {}, .body = aws_json({{"message", error.error.message}})};
  }
  std::vector<Surface> surface() const override { return {{"Throw", Carries::nothing}}; }
  std::size_t body_limit() const override { return 1024; }
};

class AwsFront : public control::FakeWorld {
 protected:
  AwsFront() {
    const auto tenant = control::run_task(io_, keys_.create_tenant("a", {}));
    const auto issued = control::run_task(io_, keys_.issue(tenant->id, "k"));
    key_ = {.access_key_id = issued->key.id.str(),
            .secret = issued->secret_access_key,
            .session_token = {}};
    api_.add("lambda", std::make_unique<ThrowingService>());
  }

  std::string call(FakeExchange& exchange) {
    net::HttpRequest& head = exchange.head();
    head.authority = "localhost";
    const wire::SigV4Request request{head.method, head.target, head.authority, head.headers};
    const wire::Headers added =
        wire::sign_sigv4(request, key_, "eu-1", "lambda", wire::sha256_hex(""),
                         core::to_unix_ms(clock_.now()) / 1000);
    head.headers.insert(head.headers.end(), added.begin(), added.end());
    testing::internal::CaptureStderr();
    const auto handle = [&]() -> net::Task<bool> {
      co_await api_.handle(exchange, *net::parse_target(head.target));
      co_return true;
    };
    (void)control::run_task(io_, handle());
    return testing::internal::GetCapturedStderr();
  }

  control::KeyRing keys_{*db_, clock_, wire::SealingKey{}};
  control::Supervisor supervisor_{*services_};
  AwsApi api_{keys_, supervisor_.roles(), clock_, log_, metrics_};
  wire::SigV4Key key_;
};

TEST_F(AwsFront, AnExceptionIsAnAnswerOfTheServiceAndALineInTheLog) {
  FakeExchange exchange("GET", "/2025-09-09");
  const std::string log = call(exchange);
  EXPECT_EQ(exchange.status, 500);
  ASSERT_TRUE(parse_json_object(exchange.answer)) << exchange.answer;
  EXPECT_THAT(exchange.answer, Not(HasSubstr("a bug")));
  EXPECT_THAT(log, HasSubstr("a bug of ours"));
}

TEST_F(AwsFront, AnExceptionBehindTheHeadOfAnAnswerIsInTheLog) {
  FakeExchange exchange("GET", "/2025-09-09/begun");
  const std::string log = call(exchange);
  EXPECT_EQ(exchange.status, 200);
  EXPECT_EQ(exchange.answer, "");
  EXPECT_THAT(log, HasSubstr("a bug of ours"));
}

}  // namespace
}  // namespace firebreak::api
