#include "store/database.h"

namespace firebreak::store {

Database::Database(const net::asio::any_io_executor& executor, std::unique_ptr<Store> store)
    : writer_(std::make_shared<Lane>(executor)), reader_(std::make_shared<Lane>(executor)) {
  writer_->store = std::move(store);
}

Database::~Database() {
  // The reader first: it may be connecting through the writer's store.
  for (const auto& lane : {reader_, writer_}) {
    lane->thread.join();
    lane->open.reset();
    lane->store.reset();
  }
}

net::Task<Result<Database::Transaction>> Database::begin(Deadline deadline, Durability durability) {
  const std::shared_ptr<Lane> lane = writer_;
  FB_CO_TRY_ASSIGN(auto turn, co_await lane->turn.lock(deadline));
  Transaction held(lane, std::move(turn));
  auto call = [&]() -> Result<> {
    FB_TRY_ASSIGN(
        store::Transaction begun,
        lane->store->begin(Access::write, deadline.earlier(Deadline::in(kLockTime)), durability));
    lane->open.emplace(std::move(begun));
    return {};
  };
  FB_CO_TRY(co_await net::run_blocking(lane->thread, call));
  co_return held;
}

net::Task<Result<>> Database::sync() {
  const std::shared_ptr<Lane> lane = writer_;
  auto call = [&lane] { return lane->store->sync(); };
  co_return co_await net::run_blocking(lane->thread, call);
}

Database::Transaction::~Transaction() {
  if (!lane_) return;
  // Before whatever the next holder of the turn posts. The thread belongs to the lane.
  net::asio::post(lane_->thread, [lane = lane_.get()] { lane->open.reset(); });
}

net::Task<Result<>> Database::Transaction::commit(Deadline deadline) {
  const std::shared_ptr<Lane> lane = std::exchange(lane_, nullptr);
  auto call = [&]() -> Result<> {
    store::Transaction ending = *std::move(lane->open);
    lane->open.reset();
    return ending.commit(deadline);
  };
  auto done = co_await net::run_blocking(lane->thread, call);
  turn_.release();
  co_return done;
}

}  // namespace firebreak::store
