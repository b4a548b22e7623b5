#include "wire/http1.h"

#include <random>

#include <gtest/gtest.h>

namespace firebreak::wire {
namespace {

using Event = Http1Parser::Event;
using Role = Http1Parser::Role;

struct Message {
  Http1Head head;
  std::string body;
  Headers trailers;
  bool complete = false;
};

struct Parsed {
  std::vector<Message> messages;
  std::optional<Error> error;
  int status = 0;
  bool at_end = false;
};

// Feeds in pieces, as a connection does.
Parsed parse(Role role, std::string_view input, std::size_t piece = 1 << 20,
             const Http1Limits& limits = {}) {
  Parsed out;
  Http1Parser parser(role, limits);
  std::string buffer;
  while (true) {
    auto step = parser.step(buffer);
    if (!step) {
      out.error = step.error();
      out.status = parser.error_status();
      return out;
    }
    if (step->event == Event::head) out.messages.push_back({parser.head(), {}, {}, false});
    if (step->event == Event::body) out.messages.back().body += step->body;
    if (step->event == Event::end) {
      out.messages.back().trailers = parser.trailers();
      out.messages.back().complete = true;
      parser.next();
    }
    buffer.erase(0, step->consumed);
    if (step->event != Event::need_more) continue;
    EXPECT_TRUE(buffer.empty());
    if (input.empty()) break;
    buffer = input.substr(0, piece);
    input.remove_prefix(buffer.size());
  }
  out.at_end = parser.at_end();
  return out;
}

const std::string kGet = "GET /a?b=1 HTTP/1.1\r\nHost: box.test\r\n";

TEST(Http1, ParsesRequestsInAnyPieces) {
  const std::string input = kGet +
                            "X-A:  one \t\r\nx-a: two\r\n\r\n"
                            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello"
                            "\r\nPOST / HTTP/1.1\r\nhost: a\r\nTransfer-Encoding: Chunked\r\n\r\n"
                            "5\r\nhello\r\n0A;x=\"y\"\r\n0123456789\r\n000\r\nX-T: v\r\n\r\n";
  for (const std::size_t piece : {1U, 2U, 3U, 7U, 1000U}) {
    const Parsed parsed = parse(Role::request, input, piece);
    ASSERT_FALSE(parsed.error) << parsed.error->text();
    ASSERT_EQ(parsed.messages.size(), 3U);
    EXPECT_TRUE(parsed.at_end);
    const Http1Head& first = parsed.messages[0].head;
    EXPECT_EQ(first.method, "GET");
    EXPECT_EQ(first.target, "/a?b=1");
    EXPECT_EQ(first.headers, (Headers{{"host", "box.test"}, {"x-a", "one"}, {"x-a", "two"}}));
    EXPECT_TRUE(first.keep_alive);
    EXPECT_EQ(parsed.messages[1].body, "hello");
    EXPECT_EQ(parsed.messages[2].body, "hello0123456789");
    EXPECT_EQ(parsed.messages[2].trailers, (Headers{{"x-t", "v"}}));
    for (const Message& message : parsed.messages) EXPECT_TRUE(message.complete);
  }
}

TEST(Http1, ParsesResponses) {
  const std::string input =
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200\r\ncontent-length: 2\r\n\r\nok"
      "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n"
      "HTTP/1.0 200 OK\r\n\r\nuntil the end";
  for (const std::size_t piece : {1U, 5U, 1000U}) {
    const Parsed parsed = parse(Role::response, input, piece);
    ASSERT_FALSE(parsed.error) << parsed.error->text();
    ASSERT_EQ(parsed.messages.size(), 5U);
    EXPECT_EQ(parsed.messages[1].body, "ok");
    EXPECT_EQ(parsed.messages[4].body, "until the end");
    EXPECT_FALSE(parsed.messages[4].complete);
    EXPECT_FALSE(parsed.messages[4].head.keep_alive);
    EXPECT_TRUE(parsed.at_end);
  }
  EXPECT_FALSE(parse(Role::response, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\no").at_end);
}

TEST(Http1, ReadsConnectionOptions) {
  const auto head = [](const std::string& more) {
    return parse(Role::request, kGet + more + "\r\n").messages.at(0).head;
  };
  EXPECT_FALSE(head("Connection: Close\r\n").keep_alive);
  EXPECT_FALSE(head("connection: x, close\r\n").keep_alive);
  EXPECT_TRUE(head("connection: upgrade\r\nupgrade: websocket\r\n").upgrade);
  EXPECT_FALSE(head("upgrade: websocket\r\n").upgrade);
  EXPECT_TRUE(head("expect: 100-Continue\r\n").expect_continue);
  const auto old = parse(Role::request, "GET / HTTP/1.0\r\n\r\n").messages.at(0).head;
  EXPECT_FALSE(old.keep_alive);
  EXPECT_TRUE(parse(Role::request, "GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
                  .messages.at(0)
                  .head.keep_alive);
}

TEST(Http1, RefusesWhatCouldBeReadInTwoWays) {
  const std::string post = "POST / HTTP/1.1\r\nhost: a\r\n";
  const std::string chunked = post + "transfer-encoding: chunked\r\n\r\n";
  const std::string nul(1, '\0');
  const std::pair<std::string, int> cases[] = {
      {post + "content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n", 400},
      {post + "transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n", 400},
      {post + "content-length: 3\r\ncontent-length: 4\r\n\r\n", 400},
      {post + "content-length: 3\r\ncontent-length: 3\r\n\r\n", 400},
      {post + "content-length: 3, 3\r\n\r\n", 400},
      {post + "content-length: +3\r\n\r\n", 400},
      {post + "content-length: -1\r\n\r\n", 400},
      {post + "content-length: 0x3\r\n\r\n", 400},
      {post + "content-length: 3 3\r\n\r\n", 400},
      {post + "content-length:\r\n\r\n", 400},
      {post + "content-length: 99999999999999999999\r\n\r\n", 400},
      {post + "transfer-encoding: chunked, chunked\r\n\r\n", 501},
      {post + "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n", 400},
      {post + "transfer-encoding: gzip, chunked\r\n\r\n", 501},
      {post + "transfer-encoding: identity\r\n\r\n", 501},
      {post + "transfer-encoding: \x0b"
              "chunked\r\n\r\n",
       400},
      {"POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n", 400},
      {post + "content-length : 3\r\n\r\n", 400},
      {post + "x: a\r\n folded: b\r\n\r\n", 400},
      {post + "x: a\r\n\tfolded\r\n\r\n", 400},
      {post + " x: a\r\n\r\n", 400},
      {post + ": a\r\n\r\n", 400},
      {post + "no colon\r\n\r\n", 400},
      {post + "x\x01y: a\r\n\r\n", 400},
      {post + "x: a" + nul + "b\r\n\r\n", 400},
      {post + "x: a\rb\r\n\r\n", 400},
      {post + "x: a\n\r\n", 400},
      {post + "x: a\r\n\n", 400},
      {post + "x: a\x7f\r\n\r\n", 400},
      {"GET / HTTP/1.1\nhost: a\n\n", 400},
      {"GET  / HTTP/1.1\r\nhost: a\r\n\r\n", 400},
      {"GET /  HTTP/1.1\r\nhost: a\r\n\r\n", 400},
      {"GET\t/ HTTP/1.1\r\nhost: a\r\n\r\n", 400},
      {"GET / http/1.1\r\nhost: a\r\n\r\n", 400},
      {"GET / HTTP/1.1 \r\nhost: a\r\n\r\n", 400},
      {"GET / HTTP/1.2\r\nhost: a\r\n\r\n", 505},
      {"GET / HTTP/2.0\r\nhost: a\r\n\r\n", 505},
      {"GET /\r\n\r\n", 400},
      {"GET nothing HTTP/1.1\r\nhost: a\r\n\r\n", 400},
      {"GET * HTTP/1.1\r\nhost: a\r\n\r\n", 400},
      {"GET /\x80 HTTP/1.1\r\nhost: a\r\n\r\n", 400},
      {"GET /#f HTTP/1.1\r\nhost: a\r\n\r\n", 400},
      {"G(T / HTTP/1.1\r\nhost: a\r\n\r\n", 400},
      {"CONNECT a:80 HTTP/1.1\r\nhost: a\r\n\r\n", 501},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nhost: a\r\nhost: a\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nhost: a b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nhost: a/b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nhost: u@b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nhost: a\r\nexpect: magic\r\n\r\n", 417},
      {"\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n", 400},
      {chunked + "\r\n", 400},
      {chunked + "x\r\n", 400},
      {chunked + "-1\r\n", 400},
      {chunked + "0x1\r\n", 400},
      {chunked + " 1\r\na\r\n", 400},
      {chunked + "1 \r\na\r\n", 400},
      {chunked + "1\na\n", 400},
      {chunked + "1;a\x01\r\na\r\n", 400},
      {chunked + "ffffffffffffffff\r\n", 400},
      {chunked + "10000000000000000\r\n", 400},
      {chunked + "1\r\nab\r\n", 400},
      {chunked + "1\r\na\n", 400},
      {chunked + "1\r\naXX", 400},
      {chunked + "1;" + std::string(300, 'x') + "\r\na\r\n", 400},
      {chunked + "0\r\nx : 1\r\n\r\n", 400},
  };
  for (const auto& [input, status] : cases) {
    for (const std::size_t piece : {1U, 1000U}) {
      // The chunk whose end is wrong is noticed at a line's end only.
      const Parsed parsed = parse(Role::request, input + "\r\n", piece);
      EXPECT_TRUE(parsed.error) << input;
      EXPECT_EQ(parsed.status, status) << input;
    }
  }
  for (const std::string input :
       {"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 2000\r\n\r\n", "HTTP/1.1  200 OK\r\n\r\n",
        "HTTP/2 200 OK\r\n\r\n", "HTTP/1.1 200 \x01\r\n\r\n", "\r\nHTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 099 X\r\n\r\n"}) {
    EXPECT_TRUE(parse(Role::response, input).error) << input;
  }
}

// Values are looked at several characters at a time: wherever the bad one is, it is found.
TEST(Http1, FindsControlCharactersEverywhere) {
  for (std::size_t size = 1; size <= 20; ++size) {
    for (std::size_t at = 0; at < size; ++at) {
      for (int code = 0; code < 256; ++code) {
        std::string value(size, 'v');
        value[at] = static_cast<char>(code);
        const bool good = (code >= 0x20 && code != 0x7f) || code == '\t';
        std::string out;
        EXPECT_EQ(put_response_head(200, {{"a", value}}, out).has_value(), good)
            << code << " at " << at << " of " << size;
        // An end of line is the parser's to see first.
        if (code == '\r' || code == '\n') continue;
        const Parsed parsed = parse(Role::request, kGet + "a: " + value + "\r\n\r\n");
        EXPECT_EQ(parsed.error.has_value(), !good) << code << " at " << at << " of " << size;
      }
    }
  }
}

TEST(Http1, HoldsItsLimits) {
  const Http1Limits limits{
      .max_head_bytes = 200, .max_headers = 4, .max_chunk_line = 50, .max_extension_bytes = 60};
  const auto error = [&](const std::string& input, std::size_t piece) {
    const Parsed parsed = parse(Role::request, input, piece, limits);
    return parsed.error ? parsed.status : 0;
  };
  const std::string chunked = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
  const std::string extended = "1;" + std::string(30, 'e') + "\r\na\r\n";
  for (const std::size_t piece : {1U, 1000U}) {
    EXPECT_EQ(error("GET / HTTP/1.1\r\nhost: a\r\n" + std::string(200, 'x'), piece), 431);
    EXPECT_EQ(error(std::string(300, 'G'), piece), 431);
    EXPECT_EQ(error("GET / HTTP/1.1\r\nhost: a\r\na: 1\r\na: 1\r\na: 1\r\na: 1\r\n\r\n", piece),
              431);
    EXPECT_EQ(error("GET / HTTP/1.1\r\nhost: a\r\na: 1\r\na: 1\r\na: 1\r\n\r\n", piece), 0);
    EXPECT_EQ(error(chunked + extended, piece), 0);
    EXPECT_EQ(error(chunked + extended + extended, piece), 400);
    EXPECT_EQ(error(chunked + "0\r\nx: " + std::string(200, 'x'), piece), 431);
  }
}

TEST(Http1, WritesWhatItReads) {
  std::mt19937 rng(7);
  std::string out;
  const Headers headers{{"host", "a"}, {"transfer-encoding", "chunked"}, {"x", "y z"}};
  ASSERT_TRUE(put_request_head("POST", "/p", headers, out));
  std::string body;
  for (int i = 0; i < 20; ++i) {
    std::string piece(1 + rng() % 5000, '\0');
    for (char& c : piece) c = static_cast<char>(rng());
    put_chunk(piece, out);
    body += piece;
  }
  ASSERT_TRUE(put_last_chunk({{"x-t", "1"}}, out));
  const Parsed parsed = parse(Role::request, out, 777);
  ASSERT_FALSE(parsed.error) << parsed.error->text();
  EXPECT_EQ(parsed.messages.at(0).body, body);
  EXPECT_EQ(parsed.messages.at(0).head.headers, headers);
  EXPECT_EQ(parsed.messages.at(0).trailers, (Headers{{"x-t", "1"}}));
  out.clear();
  ASSERT_TRUE(put_response_head(404, {{"content-length", "0"}}, out));
  EXPECT_EQ(out, "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
  EXPECT_FALSE(put_response_head(200, {{"a", "1\r\nb: 2"}}, out));
  EXPECT_FALSE(put_response_head(200, {{"a b", "1"}}, out));
  EXPECT_FALSE(put_response_head(1000, {}, out));
  EXPECT_FALSE(put_request_head("GET", "/a b", {}, out));
  out.clear();
  ASSERT_TRUE(put_request_head("GET", "/p", {{"host", "a"}}, {{"x", "y"}}, out));
  EXPECT_EQ(out, "GET /p HTTP/1.1\r\nhost: a\r\nx: y\r\n\r\n");
  EXPECT_FALSE(put_request_head("GET", "/p", {{"host", "a\n"}}, {}, out));
}

TEST(Http1, SplitsLists) {
  EXPECT_EQ(split_list(" a,b ,,\tc "), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_TRUE(has_token("keep-alive, Upgrade", "upgrade"));
  EXPECT_FALSE(has_token("not-upgrade", "upgrade"));
}

}  // namespace
}  // namespace firebreak::wire
