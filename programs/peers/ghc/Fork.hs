-- | Fork and join: threads with an MVar, or sparks.
module Fork (fork, fibChannel, fibJoin, takJoin, mergesort) where

import Control.Concurrent
import Control.Monad
import Data.Array.Base (unsafeRead, unsafeWrite)
import Data.Array.IO (IOUArray, getElems, newArray_, newListArray)
import Data.Bits ((.&.))
import Data.List (foldl')
import Data.Word (Word32)
import GHC.Conc (par, pseq)

import Clock

-- | A thread's value comes in an MVar.
fork :: IO a -> IO (MVar a)
fork work = do
  value <- newEmptyMVar
  _ <- forkIO (work >>= putMVar value)
  pure value

fibChannel :: Program
fibChannel = timed . fib
  where
    fib n
      | n < 2 = pure n
      | otherwise = do
          a <- fork (fib (n - 1))
          b <- fib (n - 2)
          takeMVar a >>= \x -> pure $! x + b

-- A spark is a call that an idle processor may take; to need its value is to join it.
fibJoin :: Program
fibJoin = timed . pure . fib
  where
    fib n
      | n < 2 = n
      | otherwise = let a = fib (n - 1); b = fib (n - 2) in a `par` (b `pseq` (a + b))

takJoin :: Program
takJoin n = timed (pure (tak n (2 * n `div` 3) (n `div` 3)))
  where
    tak :: Int -> Int -> Int -> Int
    tak x y z
      | y >= x = z
      | otherwise =
          let a = tak (x - 1) y z
              b = tak (y - 1) z x
              c = tak (z - 1) x y
           in a `par` (b `par` (c `pseq` tak a b c))

type Numbers = IOUArray Int Word32

mergesort :: Program
mergesort n = do
  numbers <- newListArray (0, n - 1) (map fromIntegral (tail (iterate next 1)))
  spare <- newArray_ (0, n - 1)
  (seconds, ()) <- timed (sort numbers spare 0 n)
  sorted <- getElems numbers
  pure (seconds, foldl' add 0 (zip [1 ..] sorted))
  where
    next :: Int -> Int
    next x = (x * 1103515245 + 12345) .&. 0x7fffffff
    add total (i, x) = (total + i * fromIntegral x) `rem` 1000000007

-- Sorts the numbers from low up to high; spare is as long as all.
sort :: Numbers -> Numbers -> Int -> Int -> IO ()
sort numbers spare low high = when (high - low > 1) $ do
  let middle = (low + high) `div` 2
  if high - low > 1024
    then do
      left <- fork (sort numbers spare low middle)
      sort numbers spare middle high
      takeMVar left
    else do
      sort numbers spare low middle
      sort numbers spare middle high
  merge numbers spare low middle high

merge :: Numbers -> Numbers -> Int -> Int -> Int -> IO ()
merge numbers spare low middle high = do
  forM_ [low .. middle - 1] $ \i -> unsafeRead numbers i >>= unsafeWrite spare i
  let go, left :: Int -> Int -> Int -> IO ()
      go i j k
        | i == middle = pure ()
        | j == high = left i j k
        | otherwise = do
            x <- unsafeRead spare i
            y <- unsafeRead numbers j
            if x <= y then left i j k else unsafeWrite numbers k y >> go i (j + 1) (k + 1)
      left i j k = unsafeRead spare i >>= unsafeWrite numbers k >> go (i + 1) j (k + 1)
  go low middle low
