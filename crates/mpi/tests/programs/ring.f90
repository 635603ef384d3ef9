! Messages and collective calls of Fortran, by both of its modules.
subroutine modern(rank, ranks, log)
    use mpi_f08
    implicit none
    integer, intent(in) :: rank, ranks, log
    integer :: i, value, total
    type(MPI_Status) :: status
    do i = 1, 20
        value = rank + i
        call MPI_Sendrecv_replace(value, 1, MPI_INTEGER, mod(rank + 1, ranks), i, &
            modulo(rank - 1, ranks), i, MPI_COMM_WORLD, status)
        call MPI_Allreduce(value, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
        write (log, *) 'modern', value, total, status%MPI_SOURCE, status%MPI_TAG
    end do
end subroutine

program ring
    use mpi
    use iso_c_binding
    implicit none
    interface
        subroutine note_way(path) bind(C)
            import :: c_char
            character(kind=c_char), intent(in) :: path(*)
        end subroutine
    end interface
    integer :: rank, ranks, error, i, value, total, log, peer, request, status(MPI_STATUS_SIZE)
    character(len=1000) :: path
    character(len=12) :: digits
    call MPI_Init(error)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
    call get_command_argument(1, path)
    write (digits, '(I0)') rank
    path = trim(path) // '.' // trim(digits)
    open (newunit=log, file=trim(path), status='replace')
    peer = mod(rank + 1, ranks)
    do i = 1, 20
        value = 10 * rank + i
        call MPI_Irecv(total, 1, MPI_INTEGER, MPI_ANY_SOURCE, i, MPI_COMM_WORLD, request, error)
        call MPI_Ssend(value, 1, MPI_INTEGER, peer, i, MPI_COMM_WORLD, error)
        call MPI_Wait(request, status, error)
        write (log, *) 'wait', total, status(MPI_SOURCE), status(MPI_TAG), error
        call MPI_Bcast(value, 1, MPI_INTEGER, mod(i, ranks), MPI_COMM_WORLD, error)
        call MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
        write (log, *) 'sum', value
        call MPI_Recv(value, 1, MPI_INTEGER, MPI_PROC_NULL, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
        call MPI_Barrier(MPI_COMM_WORLD, error)
    end do
    call modern(rank, ranks, log)
    call note_way(trim(path) // '.way' // c_null_char)
    call MPI_Finalize(error)
    write (log, '(A)') 'end'
    close (log)
end program
