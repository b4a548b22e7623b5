#include "vm/agent_case.h"

#include <random>

#include "base/text.h"
#include "machine/hash.h"

namespace firebreak::testing_support {

ExecSpec shell_spec(std::string command) {
  ExecSpec spec;
  spec.shell = std::move(command);
  return spec;
}

ExecSpec argv_spec(std::vector<std::string> argv) {
  ExecSpec spec;
  spec.argv = std::move(argv);
  return spec;
}

Task<Result<std::string>> python(Machine& machine, std::string program) {
  FB_CO_TRY_ASSIGN(ExecResult result,
                   co_await machine.agent().run(argv_spec({"python3", "-c", program}), patience()));
  if (result.exit.exit_code != 0) co_return fail(Code::internal, result.out + result.err);
  co_return std::move(result.out);
}

Task<Result<Output>> read_all(ExecStream& stream) {
  Output output;
  const auto mark = [&output](char letter) {
    if (!output.order.ends_with(letter)) output.order.push_back(letter);
  };
  for (;;) {
    FB_CO_TRY_ASSIGN(std::optional<wire::Frame> frame, co_await stream.next(patience()));
    if (!frame) co_return std::move(output);
    switch (frame->type) {
      case wire::FrameType::started:
      case wire::FrameType::item:
      case wire::FrameType::error:
      case wire::FrameType::done:
      case wire::FrameType::part:
        break;
      case wire::FrameType::out:
        mark('o');
        output.out += frame->payload;
        break;
      case wire::FrameType::err:
        mark('e');
        output.err += frame->payload;
        break;
      case wire::FrameType::gap:
        mark('g');
        output.gap += get_u64(frame->payload.data());
        break;
      case wire::FrameType::exit: {
        FB_CO_TRY_ASSIGN(output.exit, machine::parse_exit(frame->payload));
        break;
      }
    }
  }
}

Task<Result<>> read_until(ExecStream& stream, std::string& seen, std::string mark) {
  while (seen.find(mark) == std::string::npos) {
    FB_CO_TRY_ASSIGN(std::optional<wire::Frame> frame, co_await stream.next(patience()));
    if (!frame || frame->type == wire::FrameType::exit)
      co_return fail(Code::internal, "the output ended before '" + mark + "': " + seen);
    if (frame->type == wire::FrameType::out) seen += frame->payload;
  }
  co_return Result<>();
}

Task<Result<Output>> output_of(Machine& machine, std::string id) {
  FB_CO_TRY_ASSIGN(auto stream, co_await machine.agent().exec_output(id, 0, patience()));
  co_return co_await read_all(*stream);
}

Task<Result<net::Reply>> request(Machine& machine, std::string method, std::string target,
                                 std::string_view body) {
  FB_CO_TRY_ASSIGN(auto stream,
                   machine.agent().data_stream(std::move(method), std::move(target), false));
  // An answer may come before the body is sent; then the rest of it cannot be, which is no failure.
  (void)co_await stream->write(body, patience());
  stream->finish();
  FB_CO_TRY_ASSIGN(net::Reply reply, co_await stream->head(patience()));
  for (;;) {
    FB_CO_TRY_ASSIGN(const std::string bytes, co_await stream->read(patience()));
    if (bytes.empty()) co_return std::move(reply);
    reply.body += bytes;
  }
}

std::optional<Code> code_of(const net::Reply& reply) {
  if (reply.status / 100 == 2) return std::nullopt;
  return machine::agent_error(reply).code;
}

Task<void> all_of(std::vector<std::function<Task<void>()>> tasks) {
  const auto executor = co_await net::asio::this_coro::executor;
  net::Event done(executor);
  std::size_t left = tasks.size();
  for (auto& task : tasks) {
    net::asio::co_spawn(executor, task(), [&](const std::exception_ptr& failure) {
      EXPECT_EQ(failure, nullptr) << "an exception in one of several tasks";
      --left;
      done.notify();
    });
  }
  while (left > 0) co_await done.wait(patience());
}

std::string sha256(std::string_view bytes) {
  machine::Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

std::string random_text(std::size_t size, unsigned seed) {
  std::mt19937_64 random(seed);
  std::string text;
  text.reserve(size + 8);
  while (text.size() < size) put_u64(text, random());
  text.resize(size);
  return text;
}

std::string numbers(int last) {
  std::string text;
  for (int i = 1; i <= last; ++i) text.append(std::to_string(i)).push_back('\n');
  return text;
}

void AgentCase::with_clone(const Source& source, const Body& body) {
  world().run([&]() -> Task<void> {
    CO_VALUE(auto snapshot, co_await source());
    CO_VALUE(auto machine, co_await world().launch(snapshot));
    const std::string id = machine->id();
    co_await body(machine);
    if (machine) {
      CO_OK(co_await machine->terminate(in_seconds(10)));
    } else {
      CO_OK(co_await world().engine().discard(id, in_seconds(10)));
    }
  });
}

void AgentCase::with_clone(const Body& body) {
  with_clone([] { return world().default_snapshot(); }, body);
}

}  // namespace firebreak::testing_support
