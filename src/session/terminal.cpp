#include "session/terminal.h"

#include "net/race.h"

namespace firebreak::session {
namespace {

constexpr auto kLongest = std::chrono::hours(24);
constexpr auto kCall = std::chrono::seconds(10);

}  // namespace

net::Task<Result<Terminal>> Terminal::open(const Guest& guest, Command command, Deadline deadline) {
  command.open_stdin = true;
  if (!command.terminal) command.terminal = TerminalSize{};
  // Named by us: it is ended also when nobody heard that it has begun.
  const std::string id = "terminal-" + core::new_uuid();
  if (auto begun = co_await start(guest, std::move(command), "", deadline, id); !begun) {
    (void)co_await remove(guest, id, Deadline::in(kCall));
    co_return std::unexpected(begun.error());
  }
  auto events = co_await follow(guest, id, 0, deadline, Origin::terminal);
  if (!events) {
    (void)co_await remove(guest, id, Deadline::in(kCall));
    co_return std::unexpected(events.error());
  }
  co_return Terminal(guest, id, *std::move(events));
}

net::Task<void> Terminal::take_input(TerminalPeer& peer) {
  const Deadline deadline = Deadline::in(kLongest);
  std::uint64_t offset = 0;
  while (auto input = co_await peer.input()) {
    if (const auto* size = std::get_if<TerminalSize>(&*input)) {
      (void)co_await resize(guest_, id_, *size, Deadline::in(kCall));
      continue;
    }
    std::string keys = std::move(std::get<Keys>(*input).bytes);
    const std::uint64_t count = keys.size();
    if (!co_await send_input(guest_, id_, offset, std::move(keys), false, deadline)) co_return;
    offset += count;
  }
}

net::Task<void> Terminal::show_output(TerminalPeer& peer) {
  const Deadline deadline = Deadline::in(kLongest);
  for (;;) {
    auto event = co_await events_.next(deadline);
    if (!event || !*event) break;
    if (const auto* ending = std::get_if<Ending>(&**event)) {
      co_await peer.ended(*ending);
      co_return;
    }
    if (auto* chunk = std::get_if<Chunk>(&**event)) {
      if (!co_await peer.show(std::move(chunk->bytes))) co_return;
    }
  }
  co_await peer.ended(std::nullopt);
}

net::Task<void> Terminal::serve(TerminalPeer& peer) {
  (void)co_await net::race(take_input(peer), show_output(peer));
  co_await close();
}

net::Task<void> Terminal::close() {
  (void)co_await remove(guest_, id_, Deadline::in(kCall));
}

}  // namespace firebreak::session
