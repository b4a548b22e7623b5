// Contexts without a guest: the agent as a plain process, runs as their frames say them. Test code
// only.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent_fixture.h"
#include "base/json.h"
#include "wire/frames.h"

namespace firebreak::testing_agent {

struct Ran {
  json::object started;
  std::string out, err;
  std::vector<json::object> items;
  json::object error;
  json::object done;
  std::string order;  // one letter per run of frames of one type: s, o, e, i, x, d
  bool whole = true;

  std::string status() const { return text(done, "status"); }
  std::string state() const { return text(started, "state"); }
  std::string text(const json::object& object, std::string_view name) const {
    const auto* value = object.if_contains(name);
    return value != nullptr && value->is_string() ? std::string(value->as_string()) : "";
  }
  std::string value() const { return items.empty() ? "" : text(items.back(), "data"); }
  std::string traceback() const {
    std::string all;
    if (const auto* lines = error.if_contains("traceback"))
      for (const auto& line : lines->as_array()) all += std::string(line.as_string()) + "\n";
    return all;
  }
};

inline Ran parse_run(std::string_view body) {
  wire::FrameDecoder decoder;
  decoder.feed(body);
  Ran ran;
  std::string parts;
  const auto object = [&](const std::string& payload) {
    auto parsed = parse_json_object(std::exchange(parts, {}) + payload);
    EXPECT_TRUE(parsed) << payload.substr(0, 200);
    return parsed ? *parsed : json::object();
  };
  for (;;) {
    auto frame = decoder.next();
    if (!frame || !*frame) break;
    const std::string& payload = (*frame)->payload;
    const char letter = "soe??ixdp"[static_cast<int>((*frame)->type)];
    if (letter != 'p' && !ran.order.ends_with(letter)) ran.order.push_back(letter);
    if (letter == 's') ran.started = object(payload);
    if (letter == 'o') ran.out += payload;
    if (letter == 'e') ran.err += payload;
    if (letter == 'p') parts += payload;
    if (letter == 'i') ran.items.push_back(object(payload));
    if (letter == 'x') ran.error = object(payload);
    if (letter == 'd') {
      parts.clear();  // of an item that was never finished
      ran.done = object(payload);
    }
  }
  ran.whole = decoder.empty();
  return ran;
}

class ContextNative : public AgentFixture {
 protected:
  void SetUp() override {
    AgentFixture::SetUp();
    make_tenant();
  }
  std::string create(const std::string& language, std::string_view more = "") {
    const Reply reply = data_->call("POST", "/contexts",
                                    R"({"language":")" + language + "\"" + std::string(more) + "}");
    EXPECT_EQ(reply.status, 201) << reply.body;
    const json::object body = reply.json();
    return body.contains("id") ? std::string(body.at("id").as_string()) : "";
  }
  wire::StreamId start(const std::string& id, std::string_view code, int timeout_ms = 0) {
    json::object body{{"code", json::string_view(code.data(), code.size())}};
    if (timeout_ms != 0) body["timeout_ms"] = timeout_ms;
    return data_->start("POST", "/contexts/" + id + "/run", json::serialize(body));
  }
  Ran finish(wire::StreamId stream) {
    EXPECT_TRUE(
        data_->until([&] { return data_->reply(stream).closed; }, std::chrono::seconds(60)));
    return parse_run(data_->reply(stream).body);
  }
  Ran run(const std::string& id, std::string_view code, int timeout_ms = 0) {
    return finish(start(id, code, timeout_ms));
  }
  bool until_body(wire::StreamId stream, std::string_view text) {
    return data_->until([&] { return data_->reply(stream).body.find(text) != std::string::npos; },
                        std::chrono::seconds(20));
  }
  json::object status(const std::string& id) {
    return data_->call("GET", "/contexts/" + id).json();
  }
};

}  // namespace firebreak::testing_agent
