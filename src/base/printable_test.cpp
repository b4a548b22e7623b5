#include "base/printable.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace firebreak {
namespace {

TEST(Printable, PlainTextStaysAsItIs) {
  for (const std::string text :
       {"", "plain text, 100 %", "gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x94\xA5",
        "C:\\new\\table", "\xEF\xBF\xBD"}) {
    EXPECT_EQ(printable(text), text);
    EXPECT_EQ(printable_json(text), text);
    PrintableStream stream;
    EXPECT_EQ(stream.next(text) + stream.finish(), text);
  }
}

TEST(Printable, NothingSteersATerminalOrForgesALine) {
  EXPECT_EQ(printable("\x1b]0;title\x07"), "\\x1b]0;title\\x07");
  EXPECT_EQ(printable("a\nb\r\tc"), "a\\nb\\r\\tc");
  EXPECT_EQ(printable(std::string("\0\x7f", 2)), "\\x00\\x7f");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m"),
            "\\u009b31m");                      // CSI in one character
  EXPECT_EQ(printable("\xC2\x85"), "\\u0085");  // a line end of its own
  EXPECT_EQ(printable("\xE2\x80\xA8\xE2\x80\xA9"), "\\u2028\\u2029");
}

TEST(Printable, TheDirectionOfWritingIsNotTurned) {
  EXPECT_EQ(printable("a\xE2\x80\xAE"
                      "b"),
            "a\\u202eb");
  EXPECT_EQ(printable("\xE2\x81\xA6\xE2\x81\xA9\xE2\x80\x8E\xD8\x9C"),
            "\\u2066\\u2069\\u200e\\u061c");
  // Letters that are written from right to left are letters.
  EXPECT_EQ(printable("\xD7\xA9\xD7\x9C\xD7\x95\xD7\x9D"), "\xD7\xA9\xD7\x9C\xD7\x95\xD7\x9D");
}

TEST(Printable, BytesThatAreNotUtf8AreShown) {
  EXPECT_EQ(printable("\x9b"
                      "31m"),
            "\\x9b31m");                                    // CSI in one byte
  EXPECT_EQ(printable("\xC0\x9B"), "\\xc0\\x9b");           // longer than needed
  EXPECT_EQ(printable("\xED\xA0\x80"), "\\xed\\xa0\\x80");  // half of a pair
  EXPECT_EQ(printable("\xF4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(printable("\xE2\x82"), "\\xe2\\x82");
  EXPECT_EQ(printable("\xE2\x82\n"), "\\xe2\\x82\\n");
}

TEST(Printable, JsonMeansTheSame) {
  const json::value value{{"name\xC2\x9B", "\x1b[31m\x7f\xE2\x80\xAE\n\xE2\x80\xA8"}};
  const std::string text = printable_json(json::serialize(value));
  for (const char c : text) EXPECT_TRUE(c >= ' ' && c < 0x7f) << text;
  EXPECT_EQ(*parse_json(text), value);
  EXPECT_EQ(printable_json("\"\xff\x9b\""), "\"\\ufffd\\ufffd\"");
}

TEST(Printable, AStreamKeepsItsLinesHoweverItIsCut) {
  const std::string text =
      "one\r\ntwo\tx\n\x1b[2Jthree\rover\n\xE2\x82\xAC\xE2\x80\xAE\xF0\x9F\x94\xA5\n\xff\xE2\x82";
  const std::string shown =
      "one\ntwo\tx\n\\x1b[2Jthree\\rover\n\xE2\x82\xAC\\u202e\xF0\x9F\x94\xA5\n\\xff\\xe2\\x82";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    PrintableStream stream;
    std::string out;
    for (std::size_t at = 0; at < text.size(); at += size)
      out += stream.next(text.substr(at, size));
    EXPECT_EQ(out + stream.finish(), shown) << size;
  }
  PrintableStream last;
  EXPECT_EQ(last.next("end\r"), "end");
  EXPECT_EQ(last.finish(), "\\r");
}

}  // namespace
}  // namespace firebreak
