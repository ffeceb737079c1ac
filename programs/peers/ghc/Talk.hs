{-# LANGUAGE BangPatterns #-}

-- | Threads that talk by MVars. An MVar is a channel of one place, the nearest to a rendezvous that there is.
module Talk (spawn, pingPong, parallelPingPong, send, choose, sieve) where

import Control.Concurrent
import Control.Concurrent.STM
import Control.Monad
import Data.Bits ((.&.))
import Data.IORef

import Clock
import Fork (fork)

low :: Int -> Int
low total = total .&. 0xffffffff

-- | The sum of what an action gives so many times.
sumOf :: Int -> IO Int -> IO Int
sumOf times action = go times 0
  where
    go 0 !total = pure total
    go left total = action >>= \x -> go (left - 1) (total + x)

spawn :: Program
spawn n = timed (batches 0 0)
  where
    batches first !total
      | first >= n = pure total
      | otherwise = do
          let end = min n (first + 1000)
          values <- forM [first .. end - 1] $ \i -> fork (pure $! i * i `rem` 1000003)
          part <- foldM (\sofar value -> (sofar +) <$> takeMVar value) 0 values
          batches end (total + part)

-- The calls of one pair: the partner is a new thread.
pair :: Int -> IO Int
pair trips = do
  ping <- newEmptyMVar
  pong <- newEmptyMVar
  _ <- forkIO $ replicateM_ trips $ do
    x <- takeMVar ping
    putMVar pong $! x + 1
  let calls x !total
        | x == trips = pure total
        | otherwise = do
            putMVar ping x
            answer <- takeMVar pong
            calls (x + 1) (total + answer)
  calls 0 0

pingPong :: Program
pingPong n = timed (low <$> pair n)

parallelPingPong :: Program
parallelPingPong n = timed $ do
  let pairs = 100
  sums <- replicateM pairs (fork (pair (n `div` pairs)))
  low . sum <$> mapM takeMVar sums

send :: Program
send n = timed $ do
  mailbox <- newTQueueIO
  _ <- forkIO $ forM_ [0 .. n - 1] (atomically . writeTQueue mailbox)
  low <$> sumOf n (atomically (readTQueue mailbox))

-- Only transactions can choose: a channel here is a TMVar.
choose :: Program
choose n = timed $ do
  let each = n `div` 8
  channels <- replicateM 8 $ do
    out <- newEmptyTMVarIO
    _ <- forkIO $ forM_ [0 .. each - 1] (atomically . putTMVar out)
    pure out
  let anyOf = foldr (orElse . takeTMVar) retry channels
  low <$> sumOf (8 * each) (atomically anyOf)

-- When the last prime is found the generator stops, and the collector takes the threads that are left blocked.
sieve :: Program
sieve primes = do
  enough <- newIORef False
  result <- timed $ do
    first <- newEmptyMVar
    _ <- forkIO (generate enough first 2)
    nth primes first
  writeIORef enough True
  pure result
  where
    generate enough out !x = do
      putMVar out x
      stop <- readIORef enough
      unless stop (generate enough out (x + 1))
    nth left input = do
      prime <- takeMVar input
      if left <= 1
        then pure prime
        else do
          out <- newEmptyMVar
          _ <- forkIO (forever (pass prime input out))
          nth (left - 1) out
    pass prime input out = do
      x <- takeMVar input
      unless (x `rem` prime == 0) (putMVar out x)
