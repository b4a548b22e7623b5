// The beginnings of TLS connections: in any pieces the same outcome, names that are host names, and
// nothing read beyond the limits.
#include <cstdlib>
#include <string_view>
#include <tuple>

#include "wire/client_hello.h"

namespace {

using namespace firebreak::wire;
using State = ClientHelloReader::State;

void check(bool holds) {
  if (!holds) std::abort();
}

std::tuple<State, std::string, HelloFault> read(std::string_view bytes, std::size_t piece,
                                                ClientHelloReader::Which which) {
  ClientHelloReader reader(which);
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    const State before = reader.state();
    reader.feed(bytes.substr(at, piece));
    check(before == State::more || reader.state() == before);
  }
  return {reader.state(), reader.server_name(), reader.fault()};
}

void drive(std::string_view bytes, ClientHelloReader::Which which) {
  const auto whole = read(bytes, bytes.size() + 1, which);
  check(whole == read(bytes, 1, which));
  check(whole == read(bytes, 2 + bytes.size() % 11, which));
  const auto& [state, name, fault] = whole;
  if (state == State::done) {
    check(!name.empty() && name.size() <= 255);
    check(name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                 "-_.") == std::string::npos);
    check(bytes.contains(name));
  } else {
    check(name.empty());
  }
  if (bytes.size() >= kMaxClientHelloBytes) check(state != State::more);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  drive(input, ClientHelloReader::Which::first);
  drive(input, ClientHelloReader::Which::second);
  const auto whole = ServerAnswerReader().feed(input);
  ServerAnswerReader slow;
  for (const char byte : input) slow.feed({&byte, 1});
  check(slow.state() == whole);
  return 0;
}
