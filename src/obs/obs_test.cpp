#include <algorithm>
#include <exception>
#include <functional>
#include <stdexcept>

#include <gtest/gtest.h>

#include "base/json.h"
#include "base/sys.h"
#include "obs/exceptions.h"
#include "obs/log.h"
#include "obs/metrics.h"

namespace firebreak::obs {
namespace {

std::string logged(LogFormat format, Level least, const std::function<void(Log&)>& body) {
  auto pipe = sys::pipe();
  Log log(pipe->second.get(), format, least);
  body(log);
  pipe->second.reset();
  std::string out(4096, '\0');
  const auto n = ::read(pipe->first.get(), out.data(), out.size());
  out.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return out;
}

TEST(Log, JsonLinesAreOneObjectEach) {
  const std::string line = logged(LogFormat::json, Level::info, [](Log& log) {
    log.info("transition", {{"id", "microvm-1"}, {"ms", 3}, {"reason", "two\nlines \"quoted\""}});
  });
  auto object = parse_json_object(line);
  ASSERT_TRUE(object) << line;
  EXPECT_EQ(object->at("event").as_string(), "transition");
  EXPECT_EQ(object->at("reason").as_string(), "two\nlines \"quoted\"");
  EXPECT_EQ(object->at("ms").as_int64(), 3);
}

TEST(Log, TextKeepsOneLine) {
  const std::string line = logged(LogFormat::text, Level::info, [](Log& log) {
    log.warn("failed", {{"why", "a b\nc"}, {"code", "timeout"}});
  });
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_NE(line.find(R"(why="a b\nc" code=timeout)"), std::string::npos) << line;
}

// Names and reasons in the log are chosen by tenants and guests.
TEST(Log, NoValueForgesALineOrSteersATerminal) {
  const std::string hostile =
      "x\r\n2026-01-01T00:00:00.000Z error forged key=1 \x1b[2J\x7f\xC2\x9B"
      "31m\xC2\x85\xE2\x80\xA8\xE2\x80\xAE\xff";
  for (const LogFormat format : {LogFormat::text, LogFormat::json}) {
    for (const std::string& value :
         {hostile, hostile.substr(0, 1) + "\xC2\x9B", std::string("\xff")}) {
      const std::string line =
          logged(format, Level::info, [&](Log& log) { log.info("event", {{"name", value}}); });
      ASSERT_TRUE(line.ends_with('\n'));
      for (const char c : line.substr(0, line.size() - 1))
        EXPECT_TRUE(c >= ' ' && c < 0x7f) << static_cast<int>(c) << " " << line;
      if (format == LogFormat::json) EXPECT_TRUE(parse_json_object(line)) << line;
    }
  }
}

TEST(Log, BelowTheLevelNothing) {
  EXPECT_EQ(logged(LogFormat::text, Level::warn, [](Log& log) { log.info("x"); }), "");
}

TEST(Exceptions, AreALineAndACount) {
  Metrics metrics;
  const std::string lines = logged(LogFormat::text, Level::info, [&](Log& log) {
    const Exceptions exceptions(log, metrics);
    exceptions.report("launch", "microvm-1", std::make_exception_ptr(std::out_of_range("a\nb")));
    exceptions.report("launch", "microvm-2", std::make_exception_ptr(7));
  });
  EXPECT_NE(lines.find(R"(error exception where=launch context=microvm-1 error="a\nb")"),
            std::string::npos)
      << lines;
  EXPECT_NE(lines.find("unknown exception"), std::string::npos) << lines;
  EXPECT_EQ(metrics.value("firebreak_exceptions_total", label("where", "launch")), 2);
}

TEST(Metrics, TextFormat) {
  Metrics metrics;
  metrics.describe("launches_total", "counter", "Launches.");
  metrics.add("launches_total", label("path", "parked"));
  metrics.add("launches_total", label("path", "parked"));
  metrics.describe("launch_seconds", "histogram", "Time of a launch.");
  metrics.observe_ms("launch_seconds", "", 3);
  metrics.observe_ms("launch_seconds", "", 400000);
  const std::string text = metrics.text();
  EXPECT_NE(text.find("# TYPE launches_total counter\nlaunches_total{path=\"parked\"} 2\n"),
            std::string::npos);
  EXPECT_NE(text.find("launch_seconds_bucket{le=\"0.0025\"} 0\n"), std::string::npos);
  EXPECT_NE(text.find("launch_seconds_bucket{le=\"0.005\"} 1\n"), std::string::npos);
  EXPECT_NE(text.find("launch_seconds_bucket{le=\"+Inf\"} 2\n"), std::string::npos);
  EXPECT_NE(text.find("launch_seconds_count 2\n"), std::string::npos);
}

}  // namespace
}  // namespace firebreak::obs
