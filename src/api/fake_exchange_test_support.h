// A request without a connection: what a handler is given and what it answers. Test code only; one
// thread.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "net/http.h"

namespace firebreak::api {

class FakeExchange final : public net::HttpExchange {
 public:
  FakeExchange(std::string method, std::string target, std::string body = {})
      : request_{.method = std::move(method), .target = std::move(target)},
        body_(std::move(body)) {}

  net::HttpRequest& head() { return request_; }
  int status = 0;
  wire::Headers headers;
  std::string answer;

  const net::HttpRequest& request() const override { return request_; }
  net::Task<Result<std::string>> read(Deadline) override { co_return std::exchange(body_, {}); }
  net::Task<Result<>> start(int as, wire::Headers with, Deadline) override {
    status = as;
    headers = std::move(with);
    co_return Result<>();
  }
  net::Task<Result<>> write(std::string_view bytes, Deadline) override {
    answer += bytes;
    co_return Result<>();
  }
  net::Task<Result<>> finish(Deadline, wire::Headers) override { co_return Result<>(); }
  bool started() const override { return status != 0; }
  void note_caller(bool) override {}
  net::Task<bool> wait_gone(Deadline) override { co_return false; }
  net::Task<Result<std::unique_ptr<net::ByteStream>>> upgrade(wire::Headers, Deadline) override {
    co_return fail(Code::invalid, "not in this test");
  }
  std::shared_ptr<void>& kept() override { return kept_; }

 private:
  net::HttpRequest request_;
  std::string body_;
  std::shared_ptr<void> kept_;
};

}  // namespace firebreak::api
